// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A filter for the packet socket of one listener. It takes the frames of the
 * listener's port, and counts stray frames: those that no listener of its
 * process takes. So the count costs other frames nothing. Without it, a second
 * socket would have to process every frame.
 */
#include "rtwire_bpf.h"
#include "receive_frame.h"
#include "strays.h"

#define ETHERNET_BYTES 14
#define TAKE_WHOLE 0xffffffff
#define LEAVE 0
#define PACKET_OTHERHOST 3

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_strays);
} strays SEC(".maps");

/* One bit for each port: a listener of this process takes its frames. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_STRAY_TAKEN);
	__type(key, __u32);
	__type(value, __u64);
} taken SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_STRAY_PORTS);
	__type(key, __u32);
	__type(value, struct rtw_stray_port);
} unknown SEC(".maps");

/* The kernel's own loads for socket filters, in host order: cheaper than a helper. */
unsigned long long load_byte(void *skb,
			     unsigned long long at) asm("llvm.bpf.load.byte");
unsigned long long load_half(void *skb,
			     unsigned long long at) asm("llvm.bpf.load.half");
unsigned long long load_word(void *skb,
			     unsigned long long at) asm("llvm.bpf.load.word");

/*
 * Returns 1 for a frame to this station or to a group. A tagged frame to this
 * station may be marked as for others, so those frames' addresses are compared.
 */
static __always_inline int for_us(struct __sk_buff *skb, __u64 mac)
{
	if (skb->pkt_type != PACKET_OTHERHOST)
		return 1;
	if (load_byte(skb, 0) & 1)
		return 1;
	return (load_half(skb, 0) << 32 | load_word(skb, 2)) == mac;
}

/* Returns 1 if the frame was counted at this place: it was free, or the port's own. */
static __always_inline int counted_at(__u32 slot, __u64 name)
{
	struct rtw_stray_port *entry = bpf_map_lookup_elem(&unknown, &slot);
	__u64 before;

	if (!entry)
		return 0;
	before = __sync_val_compare_and_swap(&entry->name, 0, name);
	if (before && before != name)
		return 0;
	__sync_fetch_and_add(&entry->frames, 1);
	return 1;
}

static __always_inline void count_port(struct rtw_strays *at, __u32 port)
{
	__u32 first = port * RTW_STRAY_SPREAD >> (32 - RTW_STRAY_BITS);
	__u32 word = port / 64;
	__u64 *bits = bpf_map_lookup_elem(&taken, &word);

	if (!bits || READ_ONCE(*bits) >> port % 64 & 1)
		return;
#pragma unroll
	for (__u32 i = 0; i < RTW_STRAY_TRIES; i++)
		if (counted_at((first + i) % RTW_STRAY_PORTS, port + 1))
			return;
	__sync_fetch_and_add(&at->crowded, 1);
}

SEC("socket")
int count_strays(struct __sk_buff *skb)
{
	struct rtw_strays *at;
	__u32 zero = 0, first;

	at = bpf_map_lookup_elem(&strays, &zero);
	if (!at)
		return LEAVE;
	if (skb->len < ETHERNET_BYTES + RTW_HEADER_BYTES) {
		if (skb->len < ETHERNET_BYTES || for_us(skb, at->mac))
			__sync_fetch_and_add(&at->truncated, 1);
		return LEAVE;
	}
	/* Version and flags, priority, destination port. */
	first = load_word(skb, ETHERNET_BYTES);
	if (!for_us(skb, at->mac))
		return LEAVE;
	if (first >> 28 != RTW_VERSION) {
		__sync_fetch_and_add(&at->wrong_version, 1);
		return LEAVE;
	}
	first &= 0xffff;
	if (first == READ_ONCE(at->port))
		return TAKE_WHOLE;
	count_port(at, first);
	return LEAVE;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
