# SPDX-License-Identifier: BSD-3-Clause
"""
What a core of a StarServer node tells: why it ended, its reactors, the requests that were in flight, and the last ones that each reactor has
answered. gdb runs this; `starctl core CORE [PROGRAM]` runs gdb. Needs the debug symbols of exactly that program.
"""
import json
import os
import re
import socket
import struct
import sys

import gdb

LAST = 10  # of each reactor's answered requests
IN_FLIGHT = 100  # that are shown
KEPT = 2 << 20


def fail(sentence):
    print(f"starctl: {sentence}", file=sys.stderr)
    gdb.execute("quit 1")


def value(expression):
    return gdb.parse_and_eval(expression)


def field_at(type_name, *names):
    """Where a field is in a struct, in bytes."""
    at, kind = 0, gdb.lookup_type(type_name)
    for name in names:
        field = next(f for f in kind.fields() if f.name == name)
        at, kind = at + field.bitpos // 8, field.type.strip_typedefs()
    return at


def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(int(address), size))


def enum_names(type_name, prefix):
    return {field.enumval: field.name[len(prefix):].lower() for field in gdb.lookup_type(type_name).fields()}


def text_of(array):
    return array.string(errors="replace") if array.type.code == gdb.TYPE_CODE_ARRAY else array.string()


class Node:
    def __init__(self):
        state = value("'lib/node/crash.c'::crash")
        if int(state["node"]) == 0:
            fail("the node had not begun, or had ended: there is nothing of reactors in this core")
        self.node = state["node"].dereference()
        self.config = self.node["config"].dereference()
        self.shards = [self.node["shards"][i] for i in range(int(self.node["shards_count"]))]
        self.classes = enum_names("enum observe_class", "OBSERVE_")
        self.opcodes = enum_names("enum wire_opcode", "WIRE_")
        self.states = enum_names("enum rpc_stream_state", "STREAM_")

    def name(self):
        return f"{text_of(self.config['job_name'])}:{int(self.config['task_index'])}"

    def table(self, number):
        spec = self.node["specs"][number] if number else None
        return text_of(spec.dereference()["name"]) if spec is not None and int(spec) else ""


def peers_of(observe):
    """Numbers of streams and sessions, and whose they are."""
    size = gdb.lookup_type("struct observe_peer").sizeof
    at = [field_at("struct observe_peer", name) for name in ("address", "peer", "port")]
    memory = read(observe["peers"].address, observe["peers"].type.sizeof)
    peers = {}
    for begin in range(0, len(memory), size):
        number, = struct.unpack_from("<I", memory, begin + at[1])
        if number:
            address = memory[begin + at[0]:begin + at[0] + 16]
            shown = (socket.inet_ntop(socket.AF_INET, address[12:]) if address[:12] == b"\0" * 10 + b"\xff\xff"
                     else f"[{socket.inet_ntop(socket.AF_INET6, address)}]")
            peers[number] = f"{shown}:{struct.unpack_from('<H', memory, begin + at[2])[0]}"
    return peers


def last_records(node, shard, peers):
    if int(shard["observe"]) == 0:
        return []
    observe = shard["observe"].dereference()
    records, head = observe["records"], int(observe["timed"])
    count = records.type.range()[1] + 1
    found = []
    for number in range(max(0, head - LAST), head):
        # struct observe_record, whose layout lib/observe asserts
        arrived, total, wait, run, peer, what, table, status, why = struct.unpack("<QIIIIIHBB", read(records[number % count].address, 32))
        found.append({"arrived_ns": arrived, "total_us": total * 0.016, "wait_us": wait * 0.016, "run_us": run * 0.016,
                      "peer": peers.get(peer, ""), "keys": what >> 11, "slices": what >> 3 & 255, "class": node.classes[what & 7],
                      "table": node.table(table), "status": status, "why": why})
    return found


def in_flight(node, shard, peers):
    """Streams and sessions with a request that has come, in part or whole, and was not answered."""
    server = shard["rpc"].dereference()
    found = in_flight_of(server["streams"], int(server["options"]["streams_max"]), "struct rpc_stream", node.states, node, peers)
    if int(server["sessions"]):
        found += in_flight_of(server["sessions"], int(server["options"]["datagrams"]["sessions_max"]), "struct rpc_session",
                              enum_names("enum rpc_session_state", "SESSION_"), node, peers)
    return found


def in_flight_of(array, count, type_name, states, node, peers):
    size, state_at = gdb.lookup_type(type_name).sizeof, field_at(type_name, "state")
    try:
        memory = read(array, count * size)
    except gdb.MemoryError:
        count = KEPT // size  # what is taken last is not in a core (lib/base/cores.h)
        memory = read(array, count * size)
    found = []
    quiet = {number for number, name in states.items() if name in ("free", "idle", "header", "draining")}
    for index in range(count):
        if memory[index * size + state_at] in quiet:
            continue
        one = array[index]
        request = one["work"]["request"]
        frame = request["frame"]
        found.append({"peer": peers.get((int(one.address) >> 4) & 0xffffffff, ""), "state": states.get(int(one["state"]), "?"),
                      "opcode": node.opcodes.get(int(frame["opcode"]), "?"), "session": f"{int(frame['session']):x}",
                      "sequence": int(frame["sequence"]), "payload_bytes": int(frame["payload_bytes"]), "executed": int(request["task"]) != 0})
    return found


def reactor(node, index, shard):
    if int(shard["reactor"]) == 0 or int(shard["rpc"]) == 0:
        return {"index": index, "begun": False}
    stats, server = shard["reactor"].dereference()["stats"], shard["rpc"].dereference()
    busy, idle = int(stats["busy_cycles"]), int(stats["idle_cycles"])
    peers = peers_of(shard["observe"].dereference()) if int(shard["observe"]) else {}
    return {"index": index, "begun": True, "turns": int(stats["turns"]), "busy_percent": round(100 * busy / max(1, busy + idle), 1),
            "requests": int(server["counters"]["requests"]), "ready_small": int(server["small"]["count"]),
            "ready_bulk": int(server["bulk"]["count"]), "held_mbufs": int(server["held_mbufs"]),
            "in_flight": in_flight(node, shard, peers), "last": last_records(node, shard, peers)}


def why_it_ended():
    try:
        number = int(value("$_siginfo.si_signo"))
    except gdb.error:
        number = 0
    trace = gdb.execute("backtrace 16", to_string=True)
    return number, [re.sub(r"\s+", " ", line).strip() for line in trace.splitlines() if line.startswith("#")]


def show(report):
    print(f"{report['node']} has ended by signal {report['signal']}; version of the program: {report['program']}")
    for line in report["backtrace"]:
        print(f"    {line}")
    for r in report["reactors"]:
        if not r["begun"]:
            print(f"\nreactor {r['index']} had not begun")
            continue
        print(f"\nreactor {r['index']}: {r['turns']} turns, busy {r['busy_percent']} %, {r['requests']} requests, ready: {r['ready_small']} small and "
              f"{r['ready_bulk']} bulk, {r['held_mbufs']} packet buffers held")
        print(f"  {len(r['in_flight'])} requests in flight")
        for f in r["in_flight"][:IN_FLIGHT]:
            print(f"    {f['opcode']} from {f['peer'] or '-'}, sequence {f['sequence']} of session {f['session']}: {f['state']}"
                  f"{', executed in part' if f['executed'] else ''}, {f['payload_bytes']} bytes")
        print(f"  the last {len(r['last'])} that were answered:")
        for l in r["last"]:
            print(f"    {l['class']} of {l['keys']} keys of {l['table'] or '-'}, from {l['peer'] or '-'}: {l['total_us']:.1f} us, waited "
                  f"{l['wait_us']:.1f}, executed {l['run_us']:.1f}; status {l['status']}")


def main():
    core, program = os.environ["STAR_CORE"], os.environ.get("STAR_CORE_PROGRAM")
    gdb.execute("set pagination off")
    gdb.execute("set print thread-events off")
    try:
        if not program:
            # The command line that the core names; its first word is the program.
            said = gdb.execute(f"core-file {core}", to_string=True)
            named = re.search(r"Core was generated by `(\S+?)(?: .*)?'\.", said)
            program = named.group(1) if named else ""
        if not os.access(program, os.R_OK):
            fail(f"the program {program or '?'} is not there: starctl core {core} PROGRAM")
        gdb.execute(f"file {program}", to_string=True)
        gdb.execute(f"core-file {core}", to_string=True)
        node = Node()
    except gdb.error as error:
        fail(f"{core} cannot be read as a core of {program or 'a node'}, with its debug symbols (starserver-dbgsym): {error}")
        return
    number, trace = why_it_ended()
    report = {"node": node.name(), "program": program, "signal": number, "incarnation": int(node.node["incarnation"]), "backtrace": trace,
              "reactors": [reactor(node, index, shard) for index, shard in enumerate(node.shards)]}
    if os.environ.get("STAR_CORE_JSON"):
        print(json.dumps(report, indent=2))
    else:
        show(report)


main()
