-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark's view of StarServer's data plane: frames over TCP (lib/wire/frame.h), and packets of sessions over UDP with the frames in them
-- (lib/wire/packet.h). Found by what a stream or a datagram begins with, at any port: tshark -X lua_script:starserver.lua, or a copy in
-- ~/.local/lib/wireshark/plugins. Heads alone, as `starctl capture` takes them, are enough for the headers.

local FRAME_BYTES, OP_BYTES, RESULT_BYTES, PACKET_BYTES = 64, 48, 24, 64
local MAGIC_FRAME, MAGIC_PACKET = 0x52415453, 0x5453

local opcodes = { [1] = "execute", [2] = "reply", [3] = "ping", [4] = "hello" }
local statuses = { [0] = "ok", [1] = "bad frame", [2] = "bad checksum", [3] = "bad request", [4] = "stale layout", [5] = "stale incarnation",
	[6] = "wrong shard", [7] = "unknown object", [8] = "wrong dim", [9] = "wrong type", [10] = "no keys", [11] = "over limit",
	[12] = "no memory", [13] = "deadline", [14] = "busy", [15] = "shutting down", [16] = "not finite", [17] = "repeated", [18] = "forgotten",
	[19] = "closed", [20] = "gone", [21] = "not kept", [22] = "no ticket", [23] = "not allowed",
	[24] = "quota of connections", [25] = "quota of sessions", [26] = "quota of bytes in flight", [27] = "quota of requests",
	[28] = "quota of new rows", [29] = "quota of memory" }
local kinds = { [1] = "pull", [2] = "push", [3] = "push_pull", [4] = "delete", [5] = "assign", [6] = "run", [7] = "commit" }
local packets = { [1] = "open", [2] = "cookie", [3] = "opened", [4] = "data", [5] = "ack", [6] = "ping", [7] = "close", [8] = "unknown" }

local frame = Proto("starserver", "StarServer frame")
local packet = Proto("starserver_udp", "StarServer packet of a session")

local function field(of, make, name, title, ...)
	local f = make(of.name:lower() .. "." .. name, title, ...)
	of.fields[#of.fields + 1] = f
	return f
end

local F, P = { name = "starserver", fields = {} }, { name = "starserver_udp", fields = {} }
local f = {
	magic = field(F, ProtoField.uint32, "magic", "Magic", base.HEX),
	version = field(F, ProtoField.uint8, "version", "Version"),
	opcode = field(F, ProtoField.uint8, "opcode", "Opcode", base.DEC, opcodes),
	flags = field(F, ProtoField.uint8, "flags", "Flags", base.HEX),
	goes_on = field(F, ProtoField.bool, "flags.goes_on", "Goes on: the session stands", 8, nil, 1),
	resent = field(F, ProtoField.bool, "flags.resent", "Resent", 8, nil, 2),
	behind = field(F, ProtoField.bool, "flags.behind", "Behind another one", 8, nil, 4),
	status = field(F, ProtoField.uint8, "status", "Status", base.DEC, statuses),
	session = field(F, ProtoField.uint64, "session", "Session", base.HEX),
	sequence = field(F, ProtoField.uint64, "sequence", "Sequence"),
	epoch = field(F, ProtoField.uint32, "epoch", "Layout's epoch"),
	incarnation = field(F, ProtoField.uint32, "incarnation", "Incarnation", base.HEX),
	deadline = field(F, ProtoField.uint32, "deadline_us", "Deadline, microseconds"),
	payload = field(F, ProtoField.uint32, "payload_bytes", "Payload, bytes"),
	tag = field(F, ProtoField.bytes, "auth_tag", "Authentication tag"),
	checksum = field(F, ProtoField.uint32, "checksum", "Checksum", base.HEX),
	text = field(F, ProtoField.string, "error", "Sentence"),
	kind = field(F, ProtoField.uint8, "op.kind", "Operation", base.DEC, kinds),
	dtype = field(F, ProtoField.uint8, "op.dtype", "Element type of gradients"),
	result_dtype = field(F, ProtoField.uint8, "op.result_dtype", "Element type of the result"),
	object = field(F, ProtoField.uint32, "op.object", "Object and generation", base.HEX),
	count = field(F, ProtoField.uint32, "op.count", "Keys"),
	dim = field(F, ProtoField.uint32, "op.dim", "Elements of a row"),
	body = field(F, ProtoField.uint32, "op.body_bytes", "Body, bytes"),
	rate = field(F, ProtoField.float, "op.rate", "Rate"),
	step = field(F, ProtoField.uint64, "op.step", "Step"),
	op_version = field(F, ProtoField.uint64, "op.version", "Version, or tag"),
	scale = field(F, ProtoField.float, "op.scale", "Scale"),
	op_flags = field(F, ProtoField.uint32, "op.flags", "Flags", base.HEX),
	key = field(F, ProtoField.uint64, "op.key", "Key"),
	result_object = field(F, ProtoField.uint32, "result.object", "Object and generation", base.HEX),
	result_count = field(F, ProtoField.uint32, "result.count", "Keys"),
	result_version = field(F, ProtoField.uint64, "result.version", "Pushes applied so far"),
}
local p = {
	magic = field(P, ProtoField.uint16, "magic", "Magic", base.HEX),
	version = field(P, ProtoField.uint8, "version", "Version"),
	kind = field(P, ProtoField.uint8, "kind", "Kind", base.DEC, packets),
	session = field(P, ProtoField.uint32, "session", "Receiver's number of the session"),
	token = field(P, ProtoField.uint64, "token", "Token", base.HEX),
	number = field(P, ProtoField.uint32, "number", "Number"),
	ack = field(P, ProtoField.uint32, "ack", "Acknowledged up to"),
	sack = field(P, ProtoField.uint64, "sack", "And of those behind it", base.HEX),
	edge = field(P, ProtoField.uint32, "edge", "Credit up to"),
	stamp = field(P, ProtoField.uint32, "stamp", "Stamp"),
	echo = field(P, ProtoField.uint32, "echo", "Echo"),
	flags = field(P, ProtoField.uint16, "flags", "Flags", base.HEX),
	first = field(P, ProtoField.bool, "flags.first", "A message begins", 16, nil, 1),
	last = field(P, ProtoField.bool, "flags.last", "A message ends", 16, nil, 2),
	marked = field(P, ProtoField.bool, "flags.marked", "Congestion was marked", 16, nil, 4),
	ack_now = field(P, ProtoField.bool, "flags.ack_now", "Acknowledge now", 16, nil, 8),
	wants = field(P, ProtoField.uint16, "wants", "Packets that wait for credit"),
	client = field(P, ProtoField.uint64, "client", "Client", base.HEX),
}
frame.fields, packet.fields = F.fields, P.fields

local KEYS_SHOWN = 64

-- Operations of a request, or results of a reply, as far as the bytes are there. Returns what the list says in short.
local function operations(buffer, tree)
	local at, short, ops = 0, {}, 0
	while at + OP_BYTES <= buffer:len() and ops < 64 do
		local kind, count, body = buffer(at, 1):le_uint(), buffer(at + 8, 4):le_uint(), buffer(at + 16, 4):le_uint()
		local bytes = math.min(OP_BYTES + body, buffer:len() - at)
		local sub = tree:add(frame, buffer(at, bytes), string.format("%s of %d keys", kinds[kind] or "operation", count))
		sub:add_le(f.kind, buffer(at, 1))
		sub:add_le(f.dtype, buffer(at + 1, 1))
		sub:add_le(f.result_dtype, buffer(at + 2, 1))
		sub:add_le(f.object, buffer(at + 4, 4))
		sub:add_le(f.count, buffer(at + 8, 4))
		sub:add_le(f.dim, buffer(at + 12, 4))
		sub:add_le(f.body, buffer(at + 16, 4))
		sub:add_le(f.rate, buffer(at + 20, 4))
		sub:add_le(f.step, buffer(at + 24, 8))
		sub:add_le(f.op_version, buffer(at + 32, 8))
		sub:add_le(f.scale, buffer(at + 40, 4))
		sub:add_le(f.op_flags, buffer(at + 44, 4))
		if kind ~= 6 then
			for i = 0, math.min(count, KEYS_SHOWN) - 1 do
				if at + OP_BYTES + 8 * i + 8 <= buffer:len() then
					sub:add_le(f.key, buffer(at + OP_BYTES + 8 * i, 8))
				end
			end
		end
		short[#short + 1] = string.format("%s %d", kinds[kind] or "?", count)
		at = at + OP_BYTES + math.floor((body + 7) / 8) * 8
		ops = ops + 1
	end
	return table.concat(short, ", ")
end

local function results(buffer, tree)
	local at, ops = 0, 0
	while at + RESULT_BYTES <= buffer:len() and ops < 64 do
		local count, body = buffer(at + 4, 4):le_uint(), buffer(at + 12, 4):le_uint()
		local sub = tree:add(frame, buffer(at, math.min(RESULT_BYTES + body, buffer:len() - at)), string.format("result of %d keys", count))
		sub:add_le(f.result_object, buffer(at, 4))
		sub:add_le(f.result_count, buffer(at + 4, 4))
		sub:add_le(f.dim, buffer(at + 8, 4))
		sub:add_le(f.body, buffer(at + 12, 4))
		sub:add_le(f.result_version, buffer(at + 16, 8))
		at = at + RESULT_BYTES + math.floor((body + 7) / 8) * 8
		ops = ops + 1
	end
end

-- One frame, whole or cut; returns what it says in short.
local function dissect_one(buffer, tree)
	local opcode, status, payload = buffer(5, 1):le_uint(), buffer(7, 1):le_uint(), buffer(36, 4):le_uint()
	local there = math.min(payload, buffer:len() - FRAME_BYTES)
	local sub = tree:add(frame, buffer(0, FRAME_BYTES + there))
	local short = string.format("%s %s", opcodes[opcode] or "?", tostring(buffer(16, 8):le_uint64()))
	local body = there > 0 and buffer(FRAME_BYTES, there):tvb() or nil
	-- A record's checksum is 0, and its tag is not: with security.data = "sealed" nobody reads its payload here.
	local record = buffer(60, 4):le_uint() == 0 and buffer(40, 16):bytes():tohex() ~= string.rep("0", 32)

	sub:add_le(f.magic, buffer(0, 4))
	sub:add_le(f.version, buffer(4, 1))
	sub:add_le(f.opcode, buffer(5, 1))
	local flags = sub:add_le(f.flags, buffer(6, 1))
	flags:add_le(f.goes_on, buffer(6, 1))
	flags:add_le(f.resent, buffer(6, 1))
	flags:add_le(f.behind, buffer(6, 1))
	sub:add_le(f.status, buffer(7, 1))
	sub:add_le(f.session, buffer(8, 8))
	sub:add_le(f.sequence, buffer(16, 8))
	sub:add_le(f.epoch, buffer(24, 4))
	sub:add_le(f.incarnation, buffer(28, 4))
	sub:add_le(f.deadline, buffer(32, 4))
	sub:add_le(f.payload, buffer(36, 4))
	sub:add(f.tag, buffer(40, 16))
	sub:add_le(f.checksum, buffer(60, 4))
	if opcode == 1 and body and not record then
		short = short .. ": " .. operations(body, sub)
	elseif opcode == 2 and status == 0 and body and not record then
		results(body, sub)
	elseif opcode == 2 and status ~= 0 then
		short = short .. ": " .. (statuses[status] or "?")
		if body and not record then
			sub:add(f.text, body(0))
		end
	end
	sub:append_text(", " .. short)
	return short
end

-- Frames in a row, the last one perhaps cut; bytes: how many they take. Returns what they say.
local function dissect_frames(buffer, tree, aligned)
	local at, short = 0, {}
	while at + FRAME_BYTES <= buffer:len() and buffer(at, 4):le_uint() == MAGIC_FRAME do
		local payload = buffer(at + 36, 4):le_uint()
		short[#short + 1] = dissect_one(buffer(at):tvb(), tree)
		at = at + FRAME_BYTES + payload
		if aligned then
			at = math.floor((at + 7) / 8) * 8
		end
	end
	return table.concat(short, "; ")
end

local function frame_bytes(buffer, pinfo, at)
	return FRAME_BYTES + buffer(at + 36, 4):le_uint()
end

local function one_of_stream(buffer, pinfo, tree)
	local said = tostring(pinfo.cols.info)
	local short = dissect_one(buffer, tree)
	pinfo.cols.protocol = "STAR"
	pinfo.cols.info = said:find("STAR ", 1, true) == 1 and said .. "; " .. short or "STAR " .. short
	return buffer:len()
end

function frame.dissector(buffer, pinfo, tree)
	dissect_tcp_pdus(buffer, tree, FRAME_BYTES, frame_bytes, one_of_stream)
	return buffer:len()
end

function packet.dissector(buffer, pinfo, tree)
	local kind = buffer(3, 1):le_uint()
	local sub = tree:add(packet, buffer(0, PACKET_BYTES))
	local flags = buffer(44, 2):le_uint()
	local short = string.format("%s %u", packets[kind] or "?", buffer(16, 4):le_uint())
	sub:add_le(p.magic, buffer(0, 2))
	sub:add_le(p.version, buffer(2, 1))
	sub:add_le(p.kind, buffer(3, 1))
	sub:add_le(p.session, buffer(4, 4))
	sub:add_le(p.token, buffer(8, 8))
	sub:add_le(p.number, buffer(16, 4))
	sub:add_le(p.ack, buffer(20, 4))
	sub:add_le(p.sack, buffer(24, 8))
	sub:add_le(p.edge, buffer(32, 4))
	sub:add_le(p.stamp, buffer(36, 4))
	sub:add_le(p.echo, buffer(40, 4))
	local shown = sub:add_le(p.flags, buffer(44, 2))
	for _, name in ipairs({ "first", "last", "marked", "ack_now" }) do
		shown:add_le(p[name], buffer(44, 2))
	end
	sub:add_le(p.wants, buffer(46, 2))
	if kind >= 1 and kind <= 3 and buffer:len() >= PACKET_BYTES + 8 then
		sub:add_le(p.client, buffer(PACKET_BYTES, 8))
	end
	sub:append_text(", " .. short)
	if kind == 4 and flags % 2 == 1 and buffer:len() > PACKET_BYTES then
		short = short .. ": " .. dissect_frames(buffer(PACKET_BYTES):tvb(), tree, true)
	end
	pinfo.cols.protocol = "STAR-UDP"
	pinfo.cols.info = short
	return buffer:len()
end

frame:register_heuristic("tcp", function(buffer, pinfo, tree)
	if buffer:len() < FRAME_BYTES or buffer(0, 4):le_uint() ~= MAGIC_FRAME or not opcodes[buffer(5, 1):le_uint()] then
		return false
	end
	pinfo.conversation = frame
	frame.dissector(buffer, pinfo, tree)
	return true
end)

packet:register_heuristic("udp", function(buffer, pinfo, tree)
	if buffer:len() < PACKET_BYTES or buffer(0, 2):le_uint() ~= MAGIC_PACKET or buffer(2, 1):le_uint() ~= 2 or not packets[buffer(3, 1):le_uint()] then
		return false
	end
	packet.dissector(buffer, pinfo, tree)
	return true
end)
