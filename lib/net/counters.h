/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reactor's IP stack counts. Plain counters with one writer, the reactor; any thread may read them. */
#ifndef NET_COUNTERS_H
#define NET_COUNTERS_H

#include <stdint.h>

/* X(name, name for people, what it counts). The name for people is the kernel's, as nstat prints it, if the kernel has
 * that counter. F: the same for errors, which `starctl status` shows under `errors`. */
#define NET_COUNTERS(X, F) \
	X(in_frames, "NetInFrames", "frames received") \
	X(out_frames, "NetOutFrames", "frames sent") \
	F(out_no_mbuf, "NetOutNoBuffer", "not sent: no mbuf left") \
	F(out_queue_full, "NetOutQueueFull", "not sent: the output queue was full") \
	F(eth_short, "NetEthShort", "dropped: shorter than its headers") \
	X(eth_not_mine, "NetEthNotMine", "dropped: another station's address") \
	X(eth_unknown_type, "NetEthUnknownType", "dropped: neither IPv4 nor IPv6 nor ARP") \
	X(eth_other_vlan, "NetEthOtherVlan", "dropped: of a VLAN that is not ours, or of a port that was removed") \
	X(arp_bad, "NetArpBad", "dropped: malformed ARP") \
	X(nd_bad, "NetNdBad", "dropped: malformed neighbour discovery, or from beyond the link") \
	X(neighbour_solicits, "NetNeighbourSolicits", "questions for a neighbour's link address sent") \
	X(neighbour_unresolved, "NetNeighbourUnresolved", "dropped: no answer with the neighbour's link address") \
	X(neighbour_limited, "NetNeighbourLimited", "dropped: too many neighbours to ask for at once") \
	X(neighbour_conflicts, "NetNeighbourConflicts", \
	  "claims that a neighbour's link address has changed: verified first") \
	F(address_conflicts, "NetAddressConflicts", "another station claims one of our addresses") \
	F(ip_bad_header, "IpInHdrErrors", "dropped: malformed IP header") \
	F(ip_bad_checksum, "IpExtInCsumErrors", "dropped: IPv4 header checksum") \
	X(ip_not_mine, "IpInAddrErrors", "dropped: another host's IP address") \
	X(ip_bad_source, "NetIpBadSource", "dropped: from an address that no host has, or from our own") \
	F(ip_bad_extension, "NetIp6BadExtension", "dropped: IPv6 extension headers malformed, or refused") \
	X(ip_reasm_reqds, "IpReasmReqds", "fragments received") \
	X(ip_reasm_oks, "IpReasmOKs", "packets put together") \
	F(ip_reasm_fails, "IpReasmFails", "fragments dropped: malformed, overlapping, too many, or too late") \
	X(ip_reasm_timeouts, "IpReasmTimeout", "of these, too late") \
	X(ip_frag_creates, "IpFragCreates", "fragments sent") \
	X(ip_unknown_protocol, "IpInUnknownProtos", "dropped: protocol other than ICMP, UDP and TCP") \
	X(ip_no_route, "IpOutNoRoutes", "not sent: no route") \
	X(icmp_echos, "IcmpOutEchoReps", "echo requests answered") \
	X(icmp_bad, "IcmpInErrors", "dropped: ICMP length or checksum") \
	X(icmp_in_errors, "NetIcmpErrorsIn", "ICMP errors about what we had just sent") \
	X(icmp_ignored, "NetIcmpIgnored", "ICMP messages of other kinds, and errors about nothing of ours") \
	X(icmp_out_errors, "NetIcmpErrorsOut", "ICMP errors sent") \
	X(icmp_limited, "IcmpOutRateLimitGlobal", "ICMP errors not sent: too many") \
	X(pmtu_updates, "NetPmtuUpdates", "path MTUs learnt") \
	X(pmtu_refused, "NetPmtuRefused", "path MTUs not believed: too small, or too large to be a reason") \
	X(udp_in, "UdpInDatagrams", "datagrams delivered") \
	X(udp_out, "UdpOutDatagrams", "datagrams sent") \
	X(udp_bad, "UdpInErrors", "dropped: UDP length or checksum") \
	X(udp_no_port, "UdpNoPorts", "dropped: no such UDP port") \
	X(tcp_in, "TcpInSegs", "TCP segments received") \
	X(tcp_out, "TcpOutSegs", "TCP segments sent") \
	X(tcp_cut, "NetTcpOutCut", "of these, left to the port to cut from a larger frame") \
	F(tcp_bad_checksum, "TcpInCsumErrors", "dropped: TCP checksum") \
	F(tcp_bad_header, "TcpInErrs", "dropped: TCP header length") \
	F(tcp_bad_option, "NetTcpBadOption", "dropped: malformed TCP options") \
	F(tcp_no_port, "NetTcpNoPort", "segments to a closed port, answered by RST") \
	X(tcp_no_flags, "NetTcpNoFlags", "dropped: to a port where we listen, without SYN, ACK or RST") \
	F(tcp_listen_overflow, "TcpExtListenOverflows", "SYNs dropped: no free connection or too many half open") \
	X(tcp_passive_opens, "TcpPassiveOpens", "connections accepted") \
	X(tcp_active_opens, "TcpActiveOpens", "connections opened") \
	X(tcp_attempt_fails, "TcpAttemptFails", "connections that never were established") \
	F(tcp_estab_resets, "TcpEstabResets", "established connections reset by the peer") \
	X(tcp_out_rsts, "TcpOutRsts", "RSTs sent") \
	F(tcp_timeouts, "TcpExtTCPAbortOnTimeout", "established connections given up") \
	X(tcp_rtos, "TcpExtTCPTimeouts", "retransmission timeouts") \
	F(tcp_retrans_segs, "TcpRetransSegs", "segments retransmitted") \
	X(tcp_fast_retrans, "NetTcpFastRecoveries", "fast recoveries begun") \
	X(tcp_loss_probes, "TcpExtTCPLossProbes", "tail-loss probes sent (RFC 8985)") \
	X(tcp_loss_probe_recoveries, "TcpExtTCPLossProbeRecovery", "losses that such a probe repaired") \
	X(tcp_timeout_undos, "TcpExtTCPSpuriousRTOs", "timeouts found to be mistakes, and undone") \
	X(tcp_recovery_undos, "NetTcpRecoveryUndos", "fast recoveries found to be mistakes, and undone") \
	X(tcp_dsacks_in, "TcpExtTCPDSACKRecv", "duplicates that peers have reported (RFC 2883)") \
	X(tcp_sack_steps, "NetTcpSackSteps", "segments looked at for SACK blocks") \
	X(tcp_sack_reneged, "TcpExtTCPSACKReneging", "peers that took back what they had SACKed") \
	X(tcp_ecn_reductions, "NetTcpEcnReductions", "windows reduced for a congestion mark") \
	X(tcp_mtu_fails, "TcpExtTCPMTUPFail", "segment sizes lowered because large segments vanish (RFC 4821)") \
	X(tcp_zero_window_probes, "TcpExtTCPWinProbe", "probes of a closed window") \
	X(tcp_out_of_order, "TcpExtTCPOFOQueue", "segments queued out of order") \
	F(tcp_out_of_order_dropped, "TcpExtTCPOFODrop", "out-of-order segments dropped: over the budget") \
	F(tcp_data_dropped, "TcpExtTCPRcvQDrop", "data dropped: less than 1/64 of the mbufs was free") \
	X(tcp_old_segs, "NetTcpOldSegs", "segments that had been received before") \
	F(tcp_outside_window, "NetTcpOutsideWindow", "dropped: outside the receive window") \
	X(tcp_challenge_acks, "TcpExtTCPChallengeACK", "challenge ACKs sent (RFC 5961)") \
	X(tcp_delayed_acks, "TcpExtDelayedACKs", "ACKs sent by the delayed-ACK timer") \
	X(tcp_time_wait_reused, "TcpExtTWRecycled", "TIME_WAIT connections given up for a new one") \
	F(tcp_idle_closed, "NetTcpIdleClosed", "idle connections closed for a new one: the table was full") \
	F(tcp_listen_drops, "TcpExtListenDrops", "SYNs dropped: mbufs were short, or it was a FIN, too") \
	F(tcp_cookies_sent, "TcpExtSyncookiesSent", "SYNs answered by a cookie: too many half open") \
	X(tcp_cookies_received, "TcpExtSyncookiesRecv", "connections opened by a cookie that came back") \
	F(tcp_cookies_failed, "TcpExtSyncookiesFailed", "ACKs whose cookie was none of ours, or too old") \
	F(tcp_paws, "TcpExtPAWSEstab", "dropped: an old timestamp (RFC 7323, PAWS)") \
	X(tcp_paws_old_acks, "TcpExtPAWSOldAck", "ACKs that a newer segment overtook: dropped") \
	X(tcp_paws_active, "TcpExtPAWSActive", "answers to our SYN refused: they echo no timestamp of ours") \
	X(tcp_no_timestamp, "NetTcpNoTimestamp", "dropped: without the timestamp that was agreed on (RFC 7323, 3.2)") \
	X(tcp_acks_skipped, "NetTcpAcksSkipped", "answers to unacceptable segments that were not sent: too many") \
	X(tcp_dsack_old_sent, "TcpExtTCPDSACKOldSent", "duplicates reported: received before (RFC 2883)") \
	X(tcp_dsack_ofo_sent, "TcpExtTCPDSACKOfoSent", "duplicates reported: received out of order before (RFC 2883)") \
	X(tcp_keepalives, "TcpExtTCPKeepAlive", "keepalive probes sent") \
	X(tcp_abort_on_data, "TcpExtTCPAbortOnData", "connections reset: data came that nobody would read") \
	X(tcp_window_tight, "NetTcpWindowTight", "windows held small: unread data over its budget, or mbufs short") \
	X(tcp_ce_segs, "NetTcpCeSegs", "segments received with a congestion mark (RFC 3168)") \
	X(tcp_icmp_stale, "TcpExtOutOfWindowIcmps", "ICMP errors ignored: about no segment in flight") \
	X(tcp_urgent, "NetTcpUrgent", "segments with urgent data, taken as any other")

struct net_counters {
#define X(name, kernel, text) uint64_t name;
	NET_COUNTERS(X, X)
#undef X
};

#endif
