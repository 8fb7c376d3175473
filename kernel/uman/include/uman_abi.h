/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The interface between the kernel module `uman` and programs: netlink attributes of the link, requests to /dev/uman, and
 * the layout of the memory that both share. ABI.md explains it.
 */
#ifndef UMAN_ABI_H
#define UMAN_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UMAN_ABI_VERSION 1

/* Transmit modes. */
enum uman_mode {
	UMAN_MODE_QDISC = 0,	/* through the lower device's queueing discipline */
	UMAN_MODE_DIRECT = 1,	/* past it, into the driver's queue */
	UMAN_MODE_NETPOLL = 2,	/* by the driver's polling interface */
};

/* Attributes in IFLA_INFO_DATA of a link of kind `uman`. */
enum {
	IFLA_UMAN_UNSPEC,
	IFLA_UMAN_MODE,		/* u8, enum uman_mode */
	IFLA_UMAN_ETHERTYPES,	/* array of at most UMAN_ETHERTYPES __be16 */
	IFLA_UMAN_QUEUE,	/* u16, queue of mode `direct`; UMAN_QUEUE_OWN: the processor's own */
	IFLA_UMAN_LAST,
};

#define IFLA_UMAN_MAX (IFLA_UMAN_LAST - 1)
#define UMAN_ETHERTYPES 8
#define UMAN_QUEUE_OWN 0xffff

/* Limits of one program's attachment. */
#define UMAN_CYCLIC_MAX 16
#define UMAN_REPLY_MAX 64
#define UMAN_NEWEST_MAX 64
#define UMAN_RING_MAX 4096
#define UMAN_CONFIRM_ENTRIES 256
#define UMAN_PERIOD_MIN_NS 50000
#define UMAN_PERIOD_MAX_NS 1000000000
#define UMAN_LEASE_MAX 1000000
#define UMAN_LEAD_MAX_NS 200000	/* and less than half of a period */
#define UMAN_FRAME_MIN 14
#define UMAN_FRAME_MAX 1518
#define UMAN_BUFFERS 4		/* a power of two */

/* State of a slot, and of the attachment. */
enum uman_state {
	UMAN_STATE_OFF = 0,
	UMAN_STATE_ON = 1,
	UMAN_STATE_LEASE_ENDED = 2,	/* the program has not renewed it in time */
	UMAN_STATE_DEVICE_GONE = 3,
};

enum uman_kind {
	UMAN_KIND_CYCLIC = 0,
	UMAN_KIND_REPLY = 1,
	UMAN_KIND_NEWEST = 2,
	UMAN_KIND_RING = 3,
};

/*
 * A frame that the program prepares. The program writes buffer[(generation + 1) % UMAN_BUFFERS], then stores
 * generation + 1 with release order. It changes `renewed` to renew the lease. The other words are the kernel's to write;
 * it never reads them back.
 */
struct uman_buffer {
	__u32 length;
	__u32 reserved;
	__u8 data[1520];
};

struct uman_outgoing {
	__u32 generation;
	__u32 renewed;
	__u32 state;
	__u32 lease_left;
	__u64 sent;
	__u64 failed;
	__u64 skipped;
	__u64 torn;
	__u64 reserved[2];
	struct uman_buffer buffer[UMAN_BUFFERS];
};

/* A received frame. */
struct uman_received {
	__u64 stamp_ns;		/* CLOCK_TAI, in the receive handler */
	__u32 length;
	__u16 vlan_tci;
	__u16 flags;		/* UMAN_RECEIVED_… */
	__u8 data[1520];
};

#define UMAN_RECEIVED_TAGGED 0x1
#define UMAN_RECEIVED_ANSWERED 0x2

/* The newest frame that a filter met: buffer[generation % UMAN_BUFFERS]; generation 0: none yet. */
struct uman_newest {
	__u32 generation;
	__u32 state;
	__u64 reserved[7];
	struct uman_received buffer[UMAN_BUFFERS];
};

/*
 * A frame that was let go: sent, or dropped by a queue or the device, which look alike here. Times are in ns of the cyclic frame's
 * clock (replies: CLOCK_TAI).
 */
struct uman_confirmation {
	__u32 kind;
	__u32 slot;
	__u64 due_ns;		/* a reply's: the request's arrival */
	__u64 handed_ns;	/* just before it was handed to the lower device */
	__u64 done_ns;		/* the driver (or whoever orphaned the buffer before) let it go */
};

/* The first page of the shared memory. `ring_tail` and `confirm_tail` are the program's to write. */
struct uman_shared {
	__u32 version;
	__u32 state;
	__u32 ring_head;
	__u32 confirm_head;
	__u64 ring_lost;
	__u64 confirm_lost;
	__u8 reserved[32];
	__u32 ring_tail;
	__u32 confirm_tail;
};

struct uman_attach {
	__u32 version;		/* UMAN_ABI_VERSION */
	__u32 ifindex;		/* of the uman device, in the caller's network namespace */
	__u32 cyclic;		/* slots wanted */
	__u32 reply;
	__u32 newest;
	__u32 ring;		/* entries wanted: 0 or a power of two */
	__u32 flags;		/* 0 */
	__u32 reserved;		/* 0 */
	/* The kernel's answer: the layout of the memory to be mapped. */
	__u64 size;
	__u64 cyclic_at;
	__u64 reply_at;
	__u64 newest_at;
	__u64 ring_at;
	__u64 confirm_at;
};

/* Which frames: EtherType, destination, and up to 8 bytes elsewhere in the frame's first 64 (without a VLAN tag). */
struct uman_filter {
	__be16 ethertype;
	__u16 flags;		/* UMAN_FILTER_… */
	__u8 destination[6];
	__u16 offset;		/* of value and mask, from the frame's first byte */
	__u8 value[8];
	__u8 mask[8];		/* all 0: no condition */
};

#define UMAN_FILTER_DESTINATION 0x1

struct uman_cyclic {
	__u32 slot;
	__s32 clock;		/* CLOCK_REALTIME, CLOCK_MONOTONIC or CLOCK_TAI */
	__u64 start_ns;		/* the first instant; one that is past: the next on its grid */
	__u64 period_ns;
	__u32 lease_cycles;
	__u32 flags;		/* UMAN_SEND_CONFIRM */
	__u32 lead_ns;		/* the thread wakes so long before each instant and spins; at most UMAN_LEAD_MAX_NS */
	__u32 reserved;		/* 0 */
};

struct uman_reply {
	__u32 slot;
	__u32 lease_answers;
	__u32 flags;		/* UMAN_SEND_CONFIRM, UMAN_REPLY_… */
	__u32 reserved;		/* 0 */
	struct uman_filter filter;
	__u8 reserved2[4];	/* 0 */
};

#define UMAN_SEND_CONFIRM 0x1
#define UMAN_REPLY_TO_SOURCE 0x2	/* the destination is the request's source */
#define UMAN_REPLY_CONSUME 0x4		/* the request goes no further */

/* Into the ring or a newest-value slot. */
struct uman_receive {
	__u32 kind;		/* UMAN_KIND_NEWEST or UMAN_KIND_RING */
	__u32 slot;		/* 0 for the ring */
	__u32 flags;		/* UMAN_RECEIVE_… */
	struct uman_filter filter;	/* of the ring: ethertype 0 takes all of the device's */
};

#define UMAN_RECEIVE_CONSUME 0x1	/* the frame goes no further */

struct uman_stop {
	__u32 kind;
	__u32 slot;
};

#define UMAN_IOC_ATTACH _IOWR('u', 0x90, struct uman_attach)
#define UMAN_IOC_CYCLIC _IOW('u', 0x91, struct uman_cyclic)
#define UMAN_IOC_REPLY _IOW('u', 0x92, struct uman_reply)
#define UMAN_IOC_RECEIVE _IOW('u', 0x93, struct uman_receive)
#define UMAN_IOC_STOP _IOW('u', 0x94, struct uman_stop)

#endif
