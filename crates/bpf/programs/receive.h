/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layouts that the receive program shares with `crates/link/src/program`.
 * Every structure consists of 64-bit words, and of byte arrays whose length is
 * a multiple of 16, so no compiler inserts padding. A test compares the layouts
 * with the object's BTF.
 */
#ifndef RTWIRE_RECEIVE_H
#define RTWIRE_RECEIVE_H

#include <linux/types.h>

/* Channels on one interface. */
#define RTW_CHANNELS 64
/* The number of ports. */
#define RTW_PORTS 65536
/* Urgencies, each with a ring of its own in a queue. */
#define RTW_LEVELS 8
/* Buffers of a newest value, and of a reply: a power of two. */
#define RTW_BUFFERS 4
/* Room for the user data of one frame with 1500 bytes behind its Ethernet header. */
#define RTW_DATA_BYTES 1488
/* The same in a place of a queue; the place is a whole number of cache lines. */
#define RTW_PLACE_BYTES 1536
/* The most user data in a reply: 1500 bytes less header and time. */
#define RTW_REPLY_BYTES 1476
/* Patches of one answer; bytes that each can copy; bytes of a question's data
 * that can be copied. */
#define RTW_PATCHES 8
#define RTW_PATCH_BYTES 16
#define RTW_PATCH_QUESTION 128
/* Responders answer only ports from here on, and never have such a port. */
#define RTW_FIRST_ASKING_PORT 49152

/* The action on a channel's frames. */
#define RTW_FREE 0	/* no channel */
#define RTW_PASS 1	/* to Linux, after counting and policing */
#define RTW_NEWEST 2	/* into the channel's slot */
#define RTW_RESPOND 3	/* answered at once */
#define RTW_QUEUE 4	/* into the channel's own rings */

struct rtw_control {
	/* settings */
	__u64 ether_type;	/* of RTDiP, as a number */
	__u8 mac[16];		/* the interface's address, 6 bytes */
	/* counters, of frames with RTDiP's EtherType for this station */
	__u64 truncated;
	__u64 wrong_version;
	__u64 malformed;
	__u64 wrong_length;
	/* user space's own */
	__u64 next_channel;	/* where the search for a free channel begins */
};

/* One port. */
struct rtw_port_entry {
	__u64 channel;		/* 1 + index of its channel; 0: none */
	__u64 passed;		/* frames without a channel: packet sockets may serve them */
};

struct rtw_channel {
	/* settings, written by user space */
	__u64 action;
	__u64 key;
	__u64 police_byte_time;	/* ns for a byte, times 2^16; 0: no police */
	__u64 police_burst;	/* ns for the burst, times 2^8 */
	__u64 police_overhead;	/* bytes on the wire beyond the frame */
	/* state and counters, written by the program */
	__u64 police_until;	/* time when the bucket is full, ns times 2^8 */
	__u64 accepted;		/* passed on or answered (not: newest values) */
	__u64 wrong_key;
	__u64 wrong_semantics;
	__u64 policed;
	__u64 oversize;
	__u64 stale;		/* newest value: not newer than the stored one */
	__u64 busy;		/* newest value: two at the same time */
	__u64 no_question;	/* respond: not from an asking port */
	__u64 unanswered;	/* respond: content replaced during each try */
	__u64 no_room;		/* respond: answer longer than its room */
	__u64 missing;		/* newest value: missing sequence numbers */
	__u64 broken;		/* queue, notes: the memory is not valid */
	/* user space's own */
	__u64 owner;		/* 0: free; 1 + port; 2^32 more for police only */
};

struct rtw_value {
	__u64 arrival_ns;	/* CLOCK_TAI */
	__u64 sender_ns;	/* the sender's time, 0: none */
	__u64 offered;		/* values sent so far, including this one, as far as known */
	__u64 sequence;
	__u64 source;		/* address << 16 | port */
	__u64 length;
	__u64 priority;
	__u64 reserved;
	__u8 data[RTW_DATA_BYTES];
};

/*
 * version = 2 n: value n is the newest, in value[n % RTW_BUFFERS]; n = 0: no
 * value yet. 2 n + 1: value n + 1 is being written. A reader reads the version
 * and copies value n. The copy is whole if the version is then below 2 n + 7.
 */
struct rtw_slot {
	__u64 version;
	__u64 suspect;		/* 2^32 + the number that would show a restart */
	__u64 wakes;		/* 1: a reader may sleep */
	__u64 asleep;		/* 1: the next value has to wake all sleeping readers */
	__u64 notes;		/* places for arrival notes: a power of two; 0: none */
	__u64 noted;		/* notes written so far */
	__u64 reserved[2];
	struct rtw_value value[RTW_BUFFERS];
};

/*
 * The arrival of one value that a slot accepted. The notes of a channel are a
 * map of their own, created by the channel's reader: note n is in entry
 * n % notes, and `noted` is n + 1 when it is whole. The program overwrites the
 * oldest note. A reader reads `noted` and copies note n. The copy is whole if
 * `noted` is then below n + notes.
 */
struct rtw_note {
	__u64 arrival_ns;	/* CLOCK_TAI */
	__u64 sender_ns;	/* the sender's time, 0: none */
	__u64 sequence;
	__u64 source;		/* address << 16 | port */
};

/*
 * The memory of one queue channel: a map of its own, created by the channel's
 * reader. Its first entry is a `struct rtw_queue`; behind it lie the places,
 * `places` of each level. Position n of level l is in entry
 * 1 + l * places + n % places. The reader owns a place from the time it finds
 * turn = n + 1 there, until it has stored n + 1 in `tail[l]`.
 *
 * The program's and the reader's fields lie 64 bytes apart, so that the two do
 * not take a cache line from each other for each frame.
 */
struct rtw_queue {
	/* settings, written before the first frame can come */
	__u64 places;		/* of each level: a power of two */
	__u64 levels;		/* mask of the priority: 7, or 0 for one ring */
	__u64 stamps;		/* 1: store the arrival time */
	__u64 wakes;		/* 1: the reader may sleep */
	__u64 reserved[4];
	/* written by the program */
	__u64 head[RTW_LEVELS];	/* positions given away */
	__u64 freed[RTW_LEVELS]; /* `tail` when the program last read it */
	__u64 full[RTW_LEVELS];	/* frames dropped because the ring was full */
	/* written by the reader */
	__u64 tail[RTW_LEVELS];	/* positions read */
	__u64 asleep;		/* 1: the next frame has to wake it */
};

struct rtw_place {
	__u64 turn;		/* the position whose frame is complete here, plus 1 */
	__u64 arrival_ns;	/* CLOCK_TAI, 0: not stamped */
	__u64 sender_ns;	/* the sender's time, 0: none */
	__u64 source;		/* address << 16 | port */
	__u64 sequence;
	__u64 length;
	__u64 priority;
	__u64 reserved;
	__u8 data[RTW_PLACE_BYTES];
};

struct rtw_content {
	__u64 length;
	__u64 patches;		/* entries of `patch` in use */
	__u64 patch[RTW_PATCHES]; /* length | source << 16 | place << 32 */
	__u8 data[RTW_DATA_BYTES]; /* zeros behind the content */
};

/*
 * Content n is in content[n % RTW_BUFFERS]. User space writes content n + 1 and
 * then the version. So the program's copy of content n is whole if the version
 * after the copy is less than n + 3.
 */
struct rtw_reply {
	__u64 version;
	__u64 echo;		/* 1: answer with the question's own data */
	__u64 patched;		/* 1: there is, or was, content with patches */
	__u64 reserved;
	struct rtw_content content[RTW_BUFFERS];
};

#endif
