/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layouts that the PubSub program shares with
 * `crates/pubsub-station/src/driver`. Every structure consists of 64-bit words,
 * and of byte arrays whose length is a multiple of 16, so no compiler inserts
 * padding. A test compares the layouts with the object's BTF.
 */
#ifndef RTWIRE_PUBSUB_H
#define RTWIRE_PUBSUB_H

#include <linux/types.h>

/* Pairs of a question and its answer on one interface. */
#define RTW_PS_PAIRS 8
/* Room for one frame with a VLAN tag: 1518 bytes, rounded up. */
#define RTW_PS_FRAME_BYTES 1520
/* Room for one message: 1500 bytes, rounded up. */
#define RTW_PS_MESSAGE_BYTES 1504
/* Frames that wait for user space: a power of two. */
#define RTW_PS_RING 256
/* Buffers of a prepared answer: a power of two. */
#define RTW_PS_BUFFERS 4
/* The message's first bytes that are compared, in words of 8 bytes. */
#define RTW_PS_WINDOWS 8
/* Fields that an answer takes from its question; bytes of the longest. */
#define RTW_PS_COPIES 8
#define RTW_PS_COPY_BYTES 8
/* Any VLAN, or none. */
#define RTW_PS_ANY_VLAN 65536

/* The program's action on a frame in the ring. */
#define RTW_PS_ANSWERED 1

struct rtw_ps_control {
	__u64 pairs;		/* in use, from the first on */
	__u8 mac[16];		/* the interface's address, 6 bytes */
	__u64 head;		/* frames put into the ring so far */
	__u64 oversize;		/* frames that are too long for the ring */
};

/*
 * Frame n (from 0 on) is in record n % RTW_PS_RING and has the number n + 1,
 * 0 while it is being written.
 */
struct rtw_ps_record {
	__u64 number;
	__u64 arrival_ns;	/* CLOCK_TAI */
	__u64 length;
	__u64 did;		/* RTW_PS_ANSWERED */
	__u64 reserved;
	__u8 data[RTW_PS_FRAME_BYTES];
};

struct rtw_ps_pair {
	/* settings, written before the program runs */
	__u64 destination;	/* of the question: 6 bytes */
	__u64 vlan;		/* of the question, or RTW_PS_ANY_VLAN */
	__u64 length;		/* of the question's message, bytes */
	__u64 mask[RTW_PS_WINDOWS];	/* its bytes that must not differ … */
	__u64 value[RTW_PS_WINDOWS];	/* … and what they are */
	__u64 data[RTW_PS_WINDOWS];	/* mask of its data and what follows */
	__u64 zeros_are_data;	/* 1: a padded message of zeros is one */
	__u64 answer_length;	/* of the answer's message, bytes */
	__u64 answer_to;	/* destination of the answer: 6 bytes */
	__u64 sequence_at;	/* in the message: the group's number … */
	__u64 writer_sequence_at; /* … and the writer's */
	__u64 copy[RTW_PS_COPIES]; /* length | question << 16 | answer << 32; 0: no more */
	__u64 lease_ns;		/* answers end this time after `renewed_ns` */
	__u64 gap_ns;		/* shortest mean time between two answers */
	__u64 burst_ns;		/* answers ahead of that, as a time */
	/* user space's own, while the program runs */
	__u64 armed;		/* 1: there is an answer */
	__u64 renewed_ns;	/* CLOCK_MONOTONIC */
	__u64 version;		/* see `struct rtw_ps_content` */
	/* state and counters, written by the program */
	__u64 next_sequence;	/* of the next answer */
	__u64 full_ns;		/* when all of `burst_ns` is there again */
	__u64 answered;
	__u64 unarmed;		/* questions while there was no answer */
	__u64 lapsed;		/* questions after the lease */
	__u64 too_soon;		/* questions faster than `gap_ns` */
	__u64 ambiguous;	/* zeros that may be padding */
	__u64 no_room;		/* the frame could not grow to the answer */
	__u64 torn;		/* content replaced during each try */
	__u64 others;		/* other messages to the question's address */
};

/*
 * The answer's message. Content n of pair p is entry
 * p * RTW_PS_BUFFERS + n % RTW_PS_BUFFERS. User space writes content n + 1 and
 * then the pair's version. So the program's copy of content n is whole if the
 * version after the copy is less than n + 3.
 */
struct rtw_ps_content {
	__u8 data[RTW_PS_MESSAGE_BYTES];	/* zeros behind the message */
};

#endif
