/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One egress port of the lab: the layout that the kernel program and the lab
 * share. All fields are of 64 bits, so it is the same on both sides
 * (crates/lab/src/ports.rs; a test compares it with the object's BTF).
 */
#ifndef RTWIRE_SWITCH_PORT_H
#define RTWIRE_SWITCH_PORT_H

#include <linux/types.h>

/* Records in the ring; a power of two. */
#define RTW_EVENTS 524288

/* The kinds of a record. */
#define RTW_ENTERED 1
#define RTW_LEFT 2
#define RTW_DROPPED 3

/*
 * What happened to one frame at one port. The ring is never full: the oldest
 * record is overwritten, and the reader sees that by its turn.
 */
struct rtw_event {
	__u64 turn;	/* 1 + number of the record; written last */
	__u64 time_ns;	/* CLOCK_TAI */
	__u64 identity; /* RTDiP's key, shifted left by 32, and sequence number; without a key: mix of headers, node */
	__u64 what;	/* bits 0-15 port, 16-23 kind, 24-31 class, 32-39 core, 40 no key, 48-63 bytes on the wire */
};

struct rtw_port {
	/* settings, written by the lab before traffic starts */
	__u64 limit_bytes;	   /* buffer of this port; 0: no limit */
	__u64 limit_frames;	   /* the same in frames; 0: no limit */
	__u64 pool;		   /* 1 + index of the shared pool; 0: none */
	__u64 class_of;		   /* the class of priority n in bits 8n to 8n + 7 */
	__u64 overhead_bytes;	   /* bytes on the wire beyond the frame */
	__u64 forwards_only;	   /* 1: a switch's port; it sends no frames of the node itself */
	/* counters, written by the program */
	__u64 queued_bytes;	   /* accepted and not yet gone */
	__u64 queued_frames;
	__u64 max_frames;	   /* highest queued_frames ever */
	__u64 max_bytes;	   /* highest queued_bytes ever */
	__u64 window_bytes;	   /* highest since the lab last set it to 0 */
	__u64 accepted_frames;
	__u64 accepted_bytes;
	__u64 wire_bytes;	   /* gone, with overhead */
	__u64 dropped_frames;	   /* no room in port or pool */
	__u64 left_frames;
};

struct rtw_pool {
	__u64 limit_bytes;
	__u64 queued_bytes;
	__u64 max_bytes;
	__u64 limit_frames;
	__u64 queued_frames;
	__u64 max_frames;
};

#endif
