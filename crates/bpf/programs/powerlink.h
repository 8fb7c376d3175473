/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the POWERLINK program shares with
 * `crates/powerlink-station/src/driver`: every structure consists of 64-bit
 * words, and of octets whose number is a multiple of 16, so that no compiler
 * has anything to pad. A test compares the layouts with the object's BTF.
 */
#ifndef RTWIRE_POWERLINK_H
#define RTWIRE_POWERLINK_H

#include <linux/types.h>

/* Room for one frame: 1514 octets and a little. */
#define RTW_PL_FRAME_BYTES 1520
/* Frames that wait for user space: a power of two. */
#define RTW_PL_RING 256
/* Buffers of the prepared response: a power of two. */
#define RTW_PL_BUFFERS 4
/* Polls of one cycle, the start of the asynchronous phase included. */
#define RTW_PL_POLLS 256
/* A cycle is prepared while the one before it still runs. */
#define RTW_PL_CYCLES 2

/*
 * PollResponse chaining: the longest that the driver holds a response back, by
 * looking at the clock again and again. A later one is left to user space.
 */
#define RTW_PL_LONGEST_WAIT_NS 200000

/* What the program did with a frame that it shows. */
#define RTW_PL_ANSWERED 1	/* a poll request: the response has left */
#define RTW_PL_CHAINED 2	/* a poll response: the next poll has left */

/* What the program is to do. */
#define RTW_PL_CONTROLLED 1	/* answer poll requests */
#define RTW_PL_MANAGING 2	/* chain polls */

struct rtw_pl_control {
	/* settings */
	__u64 role;		/* RTW_PL_CONTROLLED, RTW_PL_MANAGING or both */
	__u64 node;		/* the own node's number */
	__u64 mac;		/* the own address, in its first 6 octets */
	__u64 wanted[4];	/* bit n: poll responses of node n are shown */
	__u64 chained_in;	/* 1: the managing node's response is this node's poll request */
	__u64 after_ns;		/* and is answered so long after its arrival */
	/* state and counters, written by the program */
	__u64 head;		/* frames that were put into the ring */
	__u64 answered;		/* poll requests */
	__u64 unanswered;	/* poll requests left to user space */
	__u64 chained;		/* polls sent on a response */
	__u64 unchained;	/* responses that the next poll had to be left to
				 * user space for */
	__u64 unwanted;		/* poll responses not shown */
	__u64 malformed;	/* shorter than their header, or too long */
};

/*
 * Frame n (from 0 on) is in record n % RTW_PL_RING and has the number n + 1,
 * 0 while it is being written.
 */
struct rtw_pl_record {
	__u64 number;
	__u64 arrival_ns;	/* CLOCK_MONOTONIC */
	__u64 length;
	__u64 did;		/* RTW_PL_ANSWERED, RTW_PL_CHAINED */
	__u8 data[RTW_PL_FRAME_BYTES];
};

/* A frame that is ready to leave; zeros behind it. */
struct rtw_pl_prepared {
	__u64 length;
	__u64 node;		/* polls: whose response the next one follows */
	__u8 data[RTW_PL_FRAME_BYTES];
};

/*
 * Response n is in prepared[n % RTW_PL_BUFFERS]; user space writes response
 * n + 1 and then the version. So the program, having copied response n, has it
 * whole if it then finds a version less than n + 3.
 */
struct rtw_pl_response {
	__u64 version;
	__u64 armed;		/* 1: poll requests are answered */
	struct rtw_pl_prepared prepared[RTW_PL_BUFFERS];
};

/*
 * The polls of cycle c are in polls[c % RTW_PL_CYCLES]. `turn` is c << 32 | i
 * while poll i waits for its response; whoever moves it to i + 1 (the program
 * on the response, user space on a timeout) sends poll i + 1.
 */
struct rtw_pl_chain {
	__u64 turn;
	__u64 count[RTW_PL_CYCLES];
};

#endif
