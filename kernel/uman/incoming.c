// SPDX-License-Identifier: GPL-2.0
/* Received frames on their way into the memory shared with a program: filters, the ring, newest-value slots. */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>

#include "uman.h"

#define UMAN_FILTER_REACH 64

bool uman_filter_valid(const struct uman_filter *filter, bool any_type)
{
	if (filter->flags & ~UMAN_FILTER_DESTINATION)
		return false;
	if (filter->offset > UMAN_FILTER_REACH - sizeof(filter->value))
		return false;
	if (!filter->ethertype)
		return any_type;
	return ntohs(filter->ethertype) >= ETH_P_802_3_MIN && !eth_type_vlan(filter->ethertype);
}

/* The frame's first bytes are linear: `uman_program_receive` saw to it. */
bool uman_meets(const struct uman_filter *filter, const struct sk_buff *skb)
{
	const u8 *frame = skb_mac_header(skb);
	unsigned int i;

	if (filter->ethertype && filter->ethertype != skb->protocol)
		return false;
	if (filter->flags & UMAN_FILTER_DESTINATION && !ether_addr_equal_unaligned(filter->destination, frame))
		return false;
	for (i = 0; i < sizeof(filter->mask); i++) {
		if (!filter->mask[i])
			continue;
		if (filter->offset + i >= skb_headlen(skb) + ETH_HLEN)
			return false;
		if ((frame[filter->offset + i] ^ filter->value[i]) & filter->mask[i])
			return false;
	}
	return true;
}

static void uman_store(struct uman_received *to, const struct sk_buff *skb, bool answered)
{
	u32 length = min_t(u32, skb->len + ETH_HLEN, UMAN_FRAME_MAX);
	u16 flags = answered ? UMAN_RECEIVED_ANSWERED : 0;

	if (skb_vlan_tag_present(skb)) {
		flags |= UMAN_RECEIVED_TAGGED;
		to->vlan_tci = skb_vlan_tag_get(skb);
	} else {
		to->vlan_tci = 0;
	}
	to->stamp_ns = uman_now(CLOCK_TAI);
	to->length = length;
	to->flags = flags;
	skb_copy_bits(skb, -(int)ETH_HLEN, to->data, length);
}

static void uman_ring_put(struct uman *u, struct uman_program *p, const struct sk_buff *skb, bool answered)
{
	u32 tail;

	spin_lock(&p->ring_lock);
	tail = READ_ONCE(p->shared->ring_tail);
	if (p->ring_head - tail >= p->layout.ring) {
		WRITE_ONCE(p->shared->ring_lost, ++p->ring_lost);
		uman_count(u, UMAN_ring_lost);
	} else {
		uman_store(&p->ring_shared[p->ring_head & (p->layout.ring - 1)], skb, answered);
		smp_store_release(&p->shared->ring_head, ++p->ring_head);
		uman_count(u, UMAN_ring_stored);
	}
	spin_unlock(&p->ring_lock);
	if (wq_has_sleeper(&p->wait))
		wake_up_interruptible(&p->wait);
}

static void uman_newest_put(struct uman *u, struct uman_program *p, u32 slot, const struct sk_buff *skb, bool answered)
{
	struct uman_newest *to = &p->newest_shared[slot];
	u32 generation;

	spin_lock(&p->newest_lock);
	generation = p->newest_generation[slot] + 1;
	uman_store(&to->buffer[generation % UMAN_BUFFERS], skb, answered);
	p->newest_generation[slot] = generation;
	smp_store_release(&to->generation, generation);
	spin_unlock(&p->newest_lock);
	uman_count(u, UMAN_newest_stored);
}

/* Answers, stores; in the receive handler. Returns true if the frame goes no further. */
bool uman_program_receive(struct uman *u, struct uman_program *p, struct sk_buff *skb)
{
	unsigned int reach = min_t(unsigned int, skb->len, UMAN_FILTER_REACH - ETH_HLEN);
	bool answered = false, consumed;
	struct uman_sink *sink;
	u32 slot;

	if (!pskb_may_pull(skb, reach))
		return false;
	consumed = uman_answer_all(u, p, skb, &answered);
	for (slot = 0; slot < p->layout.newest; slot++) {
		sink = rcu_dereference(p->newest[slot]);
		if (!sink || !uman_meets(&sink->filter, skb))
			continue;
		uman_newest_put(u, p, slot, skb, answered);
		consumed |= sink->flags & UMAN_RECEIVE_CONSUME;
	}
	sink = rcu_dereference(p->ring);
	if (sink && uman_meets(&sink->filter, skb)) {
		uman_ring_put(u, p, skb, answered);
		consumed |= sink->flags & UMAN_RECEIVE_CONSUME;
	}
	return consumed;
}
