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
 * description says, in bytes.
 *
 * XDP at a host's interface takes frames before clsact sees them, and sends
 * frames that no queue there sees. So a host's link ends before the host, in
 * a namespace of the lab's own, and a plain pair leads on to it.
 *
 * Both ends of link n have interface index FIRST + 2n and FIRST + 2n + 1 in
 * their namespaces; a port's record has the index of its own end.
 */
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include "rtwire_bpf.h"
#include "switch_port.h"

#define FIRST_IFINDEX 1000
#define HTB_MAJOR 0x10000u
#define FIRST_CLASS 0x10u
#define ETH_P_RTDIP 0x88b5
#define MAX_TRIES 8

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

/* Time when an ideal link would have begun each waiting frame; one ring per port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RTW_FOLLOWED_FRAMES);
	__type(key, __u32);
	__type(value, __u64);
} starts SEC(".maps");

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

/* Adds the frame to the ideal link; returns the time when that would begin it. */
static __always_inline __u64 ideal_start(struct rtw_port *port, __u64 wire,
					 __u64 now)
{
	__u64 time = wire * port->byte_time >> 16;

	for (int i = 0; i < MAX_TRIES; i++) {
		__u64 busy = *(volatile __u64 *)&port->busy_until_ns;
		__u64 start = busy > now ? busy : now;

		if (__sync_val_compare_and_swap(&port->busy_until_ns, busy,
						start + time) == busy)
			return start;
	}
	return now;
}

SEC("tc")
int port_enter(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex - FIRST_IFINDEX;
	struct rtw_port *port = bpf_map_lookup_elem(&ports, &index);
	struct rtw_pool *pool = 0;
	__u64 len = frame_bytes(skb), wire, order, *start;
	__u32 pool_index, slot, class;

	if (!port)
		return TC_ACT_UNSPEC;
	/* The bridge's own frames (IGMP) are not planned traffic. */
	if (port->forwards_only && !skb->ingress_ifindex)
		return TC_ACT_SHOT;
	class = priority_of(skb) * port->queues / 8;
	skb->priority = HTB_MAJOR | (FIRST_CLASS + class);

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
	wire = wire_bytes(port, len);
	order = __sync_fetch_and_add(&port->accepted_frames, 1);
	__sync_fetch_and_add(&port->accepted_bytes, len);

	slot = index * RTW_FOLLOWED_FRAMES + order % RTW_FOLLOWED_FRAMES;
	start = bpf_map_lookup_elem(&starts, &slot);
	if (start)
		*start = ideal_start(port, wire, bpf_ktime_get_ns());
	return TC_ACT_UNSPEC;

drop_pool_frame:
	if (pool)
		__sync_fetch_and_sub(&pool->queued_frames, 1);
drop_pool_bytes:
	if (pool)
		__sync_fetch_and_sub(&pool->queued_bytes, len);
drop:
	__sync_fetch_and_add(&port->dropped_frames, 1);
	return TC_ACT_SHOT;
}

static __always_inline void follow_lateness(struct rtw_port *port,
					    __u32 index, __u64 order)
{
	__u32 slot = index * RTW_FOLLOWED_FRAMES + order % RTW_FOLLOWED_FRAMES;
	__u64 *start = bpf_map_lookup_elem(&starts, &slot);
	__u64 now, late, bucket;

	if (!start || !*start || order >= port->accepted_frames ||
	    port->accepted_frames - order >= RTW_FOLLOWED_FRAMES)
		return;
	now = bpf_ktime_get_ns();
	late = now > *start ? now - *start : 0;
	raise_to(&port->lateness_max_ns, late);
	if (now < *start)
		raise_to(&port->earliness_max_ns, *start - now);
	bucket = late / RTW_LATENESS_STEP_NS;
	if (bucket >= RTW_LATENESS_BUCKETS)
		bucket = RTW_LATENESS_BUCKETS - 1;
	__sync_fetch_and_add(&port->lateness[bucket], 1);
	__sync_fetch_and_add(&port->lateness_frames, 1);
}

SEC("tc")
int port_leave(struct __sk_buff *skb)
{
	/* The port is the other end of the link. */
	__u32 index = (skb->ifindex - FIRST_IFINDEX) ^ 1, pool_index;
	struct rtw_port *port = bpf_map_lookup_elem(&ports, &index);
	struct rtw_pool *pool;
	__u64 len = frame_bytes(skb), order;

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
	__sync_fetch_and_add(&port->wire_bytes, wire_bytes(port, len));
	order = __sync_fetch_and_add(&port->left_frames, 1);
	follow_lateness(port, index, order);
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
