/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layouts that the agent's programs share with its process, in words of 64
 * bits. crates/agentd/src/gate.rs has the same numbers; a test compares them.
 */
#ifndef RTWIRE_AGENT_H
#define RTWIRE_AGENT_H

#include <linux/types.h>

/* The largest numbers of channels, peers and listeners of one interface. */
#define RTW_AGENT_CHANNELS 1024
#define RTW_AGENT_PEERS 1024
#define RTW_AGENT_LISTENERS 1024
#define RTW_AGENT_STREAMS 4096
/* In the key of a planned stream, beside its port. */
#define RTW_AGENT_UDP 0x10000
/* In the key of a listener, beside its port. */
#define RTW_AGENT_RTDIP 0x20000
/* The mark of a datagram that `enter` has made of an RTDiP frame. */
#define RTW_AGENT_MADE 0x72747769

/*
 * A socket that the agent has handed out, by its cookie. The datagrams of an
 * RTDiP stream leave as frames: without the headers of IPv4 and UDP.
 */
struct rtw_agent_channel {
	__u64 class;		/* the HTB class of its frames */
	__u64 addresses;	/* destination and source, as in the header; 0: any */
	__u64 ports;		/* source << 16 | destination */
	__u64 longest;		/* header and payload without FCS */
	__u64 tos;		/* the type of service that its frames have */
	__u64 frames;		/* counts, also of frames that the class drops */
	__u64 bytes;
	__u64 refused;		/* not of this channel: dropped */
	__u64 rtdip;		/* key << 32 | port of its frames; 0: datagrams of UDP */
	__u64 tag;		/* VLAN: 0x10000 | priority << 13 | id; 0: none */
	__u64 header[2];	/* the Ethernet header of RTDiP frames: 14 bytes */
};

/* Best effort to a peer, by its IPv4 address as in the header. */
struct rtw_agent_peer {
	__u64 class;
	__u64 until_ns;		/* of CLOCK_MONOTONIC; then `later` counts; 0: never */
	__u64 later;		/* the class of frames to no known peer */
};

/*
 * What arrives at a port that a channel or a stream of another host sends to.
 * RTDiP frames reach a program as datagrams: with headers of IPv4 and UDP.
 */
struct rtw_agent_listener {
	__u64 addresses;	/* destination and source, as in the header */
	__u64 source_port;	/* 0: any */
	__u64 rate_bytes_per_s;	/* on the wire */
	__u64 burst_bytes;	/* on the wire */
	__u64 overhead_bytes;	/* of a frame beyond header and payload */
	__u64 tokens;		/* nanobytes */
	__u64 at_ns;
	__u64 passed;
	__u64 foreign;		/* from another source: dropped */
	__u64 too_much;		/* beyond the contract: dropped */
	__u64 key;		/* RTDiP: the key of its frames */
	__u64 sum;		/* RTDiP: the sum of the words of the IPv4 header without its length */
	__u64 headers[6];	/* RTDiP: Ethernet, IPv4 and UDP, 42 bytes, without lengths */
};

struct rtw_agent_totals {
	__u64 control;		/* the class of PTP frames */
	__u64 others;		/* the class of frames to no known peer */
	__u64 other_frames;
	__u64 unsegmented;	/* several frames in one: dropped */
};

#endif
