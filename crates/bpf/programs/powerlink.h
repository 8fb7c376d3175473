/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layouts that the POWERLINK program shares with
 * `crates/powerlink-station/src/driver`. Every structure consists of 64-bit
 * words, and of byte arrays whose length is a multiple of 16, so no compiler
 * inserts padding. A test compares the layouts with the object's BTF.
 */
#ifndef RTWIRE_POWERLINK_H
#define RTWIRE_POWERLINK_H

#include <linux/types.h>

/* Room for one frame: 1514 bytes, rounded up. */
#define RTW_PL_FRAME_BYTES 1520
/* Frames that wait for user space: a power of two. */
#define RTW_PL_RING 256
/* Buffers of the prepared response: a power of two. */
#define RTW_PL_BUFFERS 4
/* Polls of one cycle, including the start of the asynchronous phase. */
#define RTW_PL_POLLS 256
/* Cycles in memory: one is prepared while the previous one runs. */
#define RTW_PL_CYCLES 2

/*
 * PollResponse chaining: the longest time for which the driver holds a response
 * back, by polling the clock. A later response is left to user space.
 */
#define RTW_PL_LONGEST_WAIT_NS 200000

/* The program's action on a frame in the ring. */
#define RTW_PL_ANSWERED 1	/* a poll request: the response has left */
#define RTW_PL_CHAINED 2	/* a poll response: the next poll has left */

/* The program's role. */
#define RTW_PL_CONTROLLED 1	/* answer poll requests */
#define RTW_PL_MANAGING 2	/* chain polls */

struct rtw_pl_control {
	/* settings */
	__u64 role;		/* RTW_PL_CONTROLLED, RTW_PL_MANAGING or both */
	__u64 node;		/* this node's number */
	__u64 mac;		/* this node's address, in the first 6 bytes */
	__u64 wanted[4];	/* bit n: poll responses of node n go to the ring */
	__u64 chained_in;	/* 1: the managing node's response counts as this node's poll request */
	__u64 after_ns;		/* time from its arrival to the answer */
	__u64 managing;		/* the managing node's address, as `mac`; 0: not known yet */
	__u64 watchdog;		/* cycles for which answers go on without renewal */
	/* state and counters, written by the program */
	__u64 head;		/* frames put into the ring so far */
	__u64 answered;		/* poll requests answered */
	__u64 unanswered;	/* poll requests left to user space */
	__u64 chained;		/* polls sent upon a response */
	__u64 unchained;	/* responses whose next poll was left to user
				 * space */
	__u64 unwanted;		/* poll responses not put into the ring */
	__u64 malformed;	/* shorter than their header, or too long */
	__u64 foreign;		/* poll requests that the managing node has not sent */
	__u64 lapsed;		/* frames left to user space: the watchdog had ended
				 * the answers, or the chain */
	__u64 cycle;		/* cycles so far, by their SoC */
	__u64 polled;		/* 1: a poll request has come since the last SoC */
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
	__u64 cycle;		/* the cycle that the frame is in */
	__u8 data[RTW_PL_FRAME_BYTES];
};

/* A frame that is ready to be sent; zeros behind it. */
struct rtw_pl_prepared {
	__u64 length;
	__u64 node;		/* polls: the node whose response the next poll follows */
	__u8 data[RTW_PL_FRAME_BYTES];
};

/*
 * Response n is in prepared[n % RTW_PL_BUFFERS]. User space writes response
 * n + 1 and then the version. So the program's copy of response n is whole if
 * the version after the copy is less than n + 3.
 */
struct rtw_pl_response {
	__u64 version;
	__u64 armed;		/* 1: poll requests are answered */
	__u64 renewed;		/* the cycle in which user space has renewed that */
	struct rtw_pl_prepared prepared[RTW_PL_BUFFERS];
};

/*
 * The polls of cycle c are in polls[c % RTW_PL_CYCLES]. `turn` is c << 32 | i
 * while poll i waits for its response. The side that moves it to i + 1 sends
 * poll i + 1: the program upon the response, user space upon a timeout.
 */
struct rtw_pl_chain {
	__u64 turn;
	__u64 until_ns;		/* CLOCK_MONOTONIC: no poll leaves later */
	__u64 count[RTW_PL_CYCLES];
};

#endif
