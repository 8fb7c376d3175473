/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * RTDiP's header in its form on the wire (docs/rtdip.md), and the program's
 * findings about one frame.
 */
#ifndef RTWIRE_RECEIVE_FRAME_H
#define RTWIRE_RECEIVE_FRAME_H

#include "rtwire_bpf.h"

#define RTW_VERSION 1
#define RTW_FLAG_NEWEST 0x1
#define RTW_FLAG_TIME 0x2
#define RTW_HEADER_BYTES 16
#define RTW_TIME_BYTES 8
#define RTW_TAG_BYTES 4

struct rtw_header {
	__u8 version_flags;
	__u8 priority;
	__u16 destination_port;
	__u16 source_port;
	__u16 length;
	__u32 sequence;
	__u32 key;
} __attribute__((packed));

struct rtw_time {
	__u64 ns;
} __attribute__((packed));

struct rtw_frame {
	__u32 at;		/* offset of RTDiP's header */
	__u32 data_at;		/* offset of the user data */
	__u32 length;		/* bytes of user data */
	__u32 bytes;		/* bytes of the frame */
	__u32 sequence;
	__u32 key;
	__u16 port;
	__u8 priority;
	__u8 flags;
	__u64 source;		/* address << 16 | port */
	__u64 sender_ns;
};

/*
 * Returns the verdict for a frame that is stored in its reader's memory. It ends
 * here, except for the first frame for a sleeping reader: that one goes on to
 * Linux, where a packet socket wakes the reader.
 *
 * The reader sets `asleep` and then looks for a frame once more. So the frame
 * must be stored before `asleep` is read here: a full barrier, on both sides.
 */
static __always_inline int rtw_wake(const __u64 *wakes, __u64 *asleep)
{
	if (*wakes && __sync_fetch_and_add(asleep, 0) &&
	    __sync_lock_test_and_set(asleep, 0))
		return XDP_PASS;
	return XDP_DROP;
}

#endif
