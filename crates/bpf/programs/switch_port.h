/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One egress port of the lab: the layout that the kernel program and the lab
 * share. All fields are of 64 bits, so it is the same on both sides
 * (crates/lab/src/ports.rs; a test compares it with the object's BTF).
 */
#ifndef RTWIRE_SWITCH_PORT_H
#define RTWIRE_SWITCH_PORT_H

#include <linux/types.h>

/* Buckets of the lateness histogram: RTW_LATENESS_STEP_NS each, the last one open. */
#define RTW_LATENESS_BUCKETS 64
#define RTW_LATENESS_STEP_NS 8000
/* Frames that may wait in a port while their lateness is still followed. */
#define RTW_FOLLOWED_FRAMES 2048

struct rtw_port {
	/* settings, written by the lab before traffic starts */
	__u64 limit_bytes;	   /* buffer of this port; 0: no limit */
	__u64 limit_frames;	   /* the same in frames; 0: no limit */
	__u64 pool;		   /* 1 + index of the shared pool; 0: none */
	__u64 queues;		   /* priority classes, 1 to 8 */
	__u64 overhead_bytes;	   /* bytes on the wire beyond the frame */
	__u64 byte_time;	   /* ns for a byte on the link, times 2^16 */
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
	__u64 busy_until_ns;	   /* time when an ideal link would be free again */
	__u64 lateness_max_ns;	   /* release after the ideal link's start */
	__u64 earliness_max_ns;	   /* release before it */
	__u64 lateness_frames;
	__u64 lateness[RTW_LATENESS_BUCKETS];
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
