// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The buffer of an emulated port.
 *
 * `port_enter` runs where a frame enters a port's queue (clsact egress). It
 * finds the priority class, and takes the frame's bytes from the port's buffer
 * and from the switch's pool, or drops the frame. `port_leave` runs where the
 * frame arrives at the other end of the link (clsact ingress), and returns the
 * bytes. The queueing discipline in between keeps the rate. So the backlog is
 * exact at every frame, not sampled, and the buffer is as large as the
 * description says, in bytes. Both write a record of each frame into a ring,
 * which the lab reads while it runs.
 *
 * XDP at a host's interface takes frames before clsact sees them, and sends
 * frames that no queue there sees. So a host's link ends before the host, in
 * a namespace of the lab's own, and a plain pair leads on to it.
 *
 * Both ends of link n have interface index FIRST + 2n and FIRST + 2n + 1 in
 * their namespaces; a port's record has the index of its own end.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>

#include "rtwire_bpf.h"
#include "switch_port.h"

#define FIRST_IFINDEX 1000
#define HTB_MAJOR 0x10000u
#define FIRST_CLASS 0x10u
#define ETH_P_RTDIP 0x88b5
#define MAX_TRIES 8
/* The IPv4 header and the first 8 bytes behind it. */
#define STRANGER_WORDS 7

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct rtw_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_pool);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_EVENTS);
	__type(key, __u32);
	__type(value, struct rtw_event);
} events SEC(".maps");

/* Records ever written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} events_written SEC(".maps");

static __always_inline void raise_to(__u64 *highest, __u64 value)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)highest;

		if (seen >= value ||
		    __sync_val_compare_and_swap(highest, seen, value) == seen)
			return;
	}
}

/* PCP of the tag, else RTDiP's priority, else the class selector of IPv4. */
static __always_inline __u32 priority_of(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	__u8 *body = data + sizeof(*eth);

	if (skb->vlan_present)
		return skb->vlan_tci >> 13;
	if ((void *)(body + 2) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_8021Q))
		return body[0] >> 5;
	if (eth->h_proto == bpf_htons(ETH_P_RTDIP))
		return body[1] & 7;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return body[1] >> 5;
	return 0;
}

/*
 * Returns the frame's bytes. Behind the first switch the kernel keeps a VLAN
 * tag beside the frame and not in it.
 */
static __always_inline __u64 frame_bytes(const struct __sk_buff *skb)
{
	return skb->len + (skb->vlan_present ? 4 : 0);
}

/* Takes `bytes` from a buffer of `limit`; returns 0 if they do not fit. */
static __always_inline int take(__u64 *queued, __u64 *highest, __u64 limit,
				__u64 bytes)
{
	__u64 now = __sync_fetch_and_add(queued, bytes) + bytes;

	if (limit && now > limit) {
		__sync_fetch_and_sub(queued, bytes);
		return 0;
	}
	raise_to(highest, now);
	return 1;
}

static __always_inline __u64 wire_bytes(const struct rtw_port *port, __u64 len)
{
	return (len < ETH_ZLEN ? ETH_ZLEN : len) + port->overhead_bytes;
}

/*
 * Returns what tells a frame of no channel from others on their way: 48 bits
 * of what its headers say, and the node that it goes to, as the lab's
 * addresses have it. Both stay as they are from port to port. With fewer bits
 * two frames in one queue would now and then be taken for each other.
 */
static __always_inline __u64 stranger(struct __sk_buff *skb)
{
	__u32 words[STRANGER_WORDS] = {};
	__u32 at = ETH_HLEN;
	__u64 mix = 0;
	__u16 node, type;

	if (bpf_skb_load_bytes(skb, 4, &node, sizeof(node)) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN - 2, &type, sizeof(type)))
		return 0;
	/* A tag is in the frame at one port and beside it at another. */
	if (type == bpf_htons(ETH_P_8021Q))
		at += 4;
	if (!bpf_skb_load_bytes(skb, at, words, sizeof(words)))
		for (int i = 0; i < STRANGER_WORDS; i++)
			mix = (mix ^ words[i]) * 0x9e3779b97f4a7c15ull;
	return mix >> 16 << 16 | bpf_ntohs(node);
}

/*
 * Finds the key and the sequence number of an RTDiP frame or datagram; returns
 * 0 for any other frame.
 */
static __always_inline int find_key(struct __sk_buff *skb, __u64 *identity)
{
	__u32 at = ETH_HLEN, words[2];
	__u16 type;
	__u8 first;

	if (bpf_skb_load_bytes(skb, ETH_HLEN - 2, &type, sizeof(type)))
		return 0;
	if (type == bpf_htons(ETH_P_8021Q)) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 2, &type, sizeof(type)))
			return 0;
		at += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, at + 9, &first, 1) ||
		    first != IPPROTO_UDP)
			return 0;
		if (bpf_skb_load_bytes(skb, at, &first, 1))
			return 0;
		at += (first & 15) * 4 + 8;
	} else if (type != bpf_htons(ETH_P_RTDIP)) {
		return 0;
	}
	if (bpf_skb_load_bytes(skb, at, &first, 1) || first >> 4 != 1 ||
	    bpf_skb_load_bytes(skb, at + 8, words, sizeof(words)))
		return 0;
	*identity = (__u64)bpf_ntohl(words[1]) << 32 | bpf_ntohl(words[0]);
	return 1;
}

/* Writes a record of this moment. */
static __always_inline void note(struct __sk_buff *skb, __u32 port, __u64 kind,
				 __u64 class, __u64 wire)
{
	__u32 zero = 0, slot;
	__u64 *written = bpf_map_lookup_elem(&events_written, &zero);
	__u64 now = bpf_ktime_get_tai_ns(), identity = 0, turn, no_key;
	struct rtw_event *event;

	if (!written)
		return;
	turn = __sync_fetch_and_add(written, 1);
	slot = turn & (RTW_EVENTS - 1);
	event = bpf_map_lookup_elem(&events, &slot);
	if (!event)
		return;
	no_key = !find_key(skb, &identity);
	if (no_key)
		identity = stranger(skb);
	/* Withdrawn first: a reader that is late sees no mixture. */
	rtw_publish(event->turn, 0);
	event->time_ns = now;
	event->identity = identity;
	event->what = (port & 0xffff) | kind << 16 | class << 24 |
		      (__u64)(bpf_get_smp_processor_id() & 0xff) << 32 |
		      no_key << 40 |
		      wire << 48;
	rtw_publish(event->turn, turn + 1);
}

/* The class of a frame by the map of the port's node. */
static __always_inline __u32 class_of(struct rtw_port *port,
				      struct __sk_buff *skb)
{
	return port->class_of >> (8 * (priority_of(skb) & 7)) & 7;
}

SEC("tc")
int port_enter(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex - FIRST_IFINDEX;
	struct rtw_port *port = bpf_map_lookup_elem(&ports, &index);
	struct rtw_pool *pool = 0;
	__u64 len = frame_bytes(skb), wire;
	__u32 pool_index, class;

	if (!port)
		return TC_ACT_UNSPEC;
	/* The bridge's own frames (IGMP) are not planned traffic. */
	if (port->forwards_only && !skb->ingress_ifindex)
		return TC_ACT_SHOT;
	class = class_of(port, skb);
	skb->priority = HTB_MAJOR | (FIRST_CLASS + class);
	wire = wire_bytes(port, len);

	if (port->pool) {
		pool_index = port->pool - 1;
		pool = bpf_map_lookup_elem(&pools, &pool_index);
	}
	if (pool) {
		if (!take(&pool->queued_bytes, &pool->max_bytes,
			  pool->limit_bytes, len))
			goto drop;
		if (!take(&pool->queued_frames, &pool->max_frames,
			  pool->limit_frames, 1))
			goto drop_pool_bytes;
	}
	if (!take(&port->queued_bytes, &port->max_bytes, port->limit_bytes,
		  len))
		goto drop_pool_frame;
	if (!take(&port->queued_frames, &port->max_frames, port->limit_frames,
		  1)) {
		__sync_fetch_and_sub(&port->queued_bytes, len);
		goto drop_pool_frame;
	}
	raise_to(&port->window_bytes, port->queued_bytes);
	__sync_fetch_and_add(&port->accepted_frames, 1);
	__sync_fetch_and_add(&port->accepted_bytes, len);
	note(skb, index, RTW_ENTERED, class, wire);
	return TC_ACT_UNSPEC;

drop_pool_frame:
	if (pool)
		__sync_fetch_and_sub(&pool->queued_frames, 1);
drop_pool_bytes:
	if (pool)
		__sync_fetch_and_sub(&pool->queued_bytes, len);
drop:
	__sync_fetch_and_add(&port->dropped_frames, 1);
	note(skb, index, RTW_DROPPED, class, wire);
	return TC_ACT_SHOT;
}

SEC("tc")
int port_leave(struct __sk_buff *skb)
{
	/* The port is the other end of the link. */
	__u32 index = (skb->ifindex - FIRST_IFINDEX) ^ 1, pool_index;
	struct rtw_port *port = bpf_map_lookup_elem(&ports, &index);
	struct rtw_pool *pool;
	__u64 len = frame_bytes(skb), wire;

	if (!port)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_sub(&port->queued_bytes, len);
	__sync_fetch_and_sub(&port->queued_frames, 1);
	if (port->pool) {
		pool_index = port->pool - 1;
		pool = bpf_map_lookup_elem(&pools, &pool_index);
		if (pool) {
			__sync_fetch_and_sub(&pool->queued_bytes, len);
			__sync_fetch_and_sub(&pool->queued_frames, 1);
		}
	}
	wire = wire_bytes(port, len);
	__sync_fetch_and_add(&port->wire_bytes, wire);
	__sync_fetch_and_add(&port->left_frames, 1);
	note(skb, index, RTW_LEFT, class_of(port, skb), wire);
	return TC_ACT_UNSPEC;
}

/*
 * At the lab's end of a plain pair: a veth takes frames that its peer's driver
 * sends (XDP_TX) only if it has a program itself.
 */
SEC("xdp")
int take_replies(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
