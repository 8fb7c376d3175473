/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Newest value: copies user data, number and arrival time once, into the
 * channel's slot. Readers map the slot and need no system call. Where a reader
 * wants it, every accepted value leaves a note of its arrival, so that also the
 * values that nobody read are known.
 */
#ifndef RTWIRE_RECEIVE_NEWEST_H
#define RTWIRE_RECEIVE_NEWEST_H

#include "receive.h"
#include "receive_frame.h"

/* Values whose numbers are further behind than this are not late ones. */
#define RTW_WINDOW 1024
#define RTW_SUSPECT (1ULL << 32)

/*
 * Returns the number of values that the sender has sent since `last`, including
 * this one; 0 if this one is not newer. The rules are those of docs/rtdip.md.
 */
static __always_inline __u32 rtw_ahead(struct rtw_slot *slot,
				       const struct rtw_value *last,
				       const struct rtw_frame *frame)
{
	__u32 ahead = frame->sequence - (__u32)last->sequence;
	__u64 suspect = slot->suspect;

	if (last->source != frame->source)
		return 1;
	if (ahead && ahead < 1U << 31) {
		slot->suspect = 0;
		return ahead;
	}
	/* Not newer by its number: accepted only from a restarted sender. */
	if (frame->sender_ns && last->sender_ns)
		return frame->sender_ns > last->sender_ns;
	if (-ahead < RTW_WINDOW)
		return 0;
	slot->suspect = RTW_SUSPECT | (__u32)(frame->sequence + 1);
	return suspect == (RTW_SUSPECT | frame->sequence);
}

/*
 * Notes the arrival of `value` in `memory`, over the oldest note. The caller holds
 * the slot: its version is odd.
 */
static __always_inline void rtw_note_arrival(struct rtw_channel *channel,
					     struct rtw_slot *slot, void *memory,
					     const struct rtw_value *value)
{
	__u64 noted = slot->noted;
	__u32 index = noted & (slot->notes - 1);
	struct rtw_note *note = bpf_map_lookup_elem(memory, &index);

	if (!note) {
		rtw_count(channel, broken);
		return;
	}
	note->arrival_ns = value->arrival_ns;
	note->sender_ns = value->sender_ns;
	note->sequence = value->sequence;
	note->source = value->source;
	rtw_publish(slot->noted, noted + 1);
}

static __always_inline int rtw_newest(struct xdp_md *ctx,
				      const struct rtw_frame *frame,
				      struct rtw_channel *channel,
				      struct rtw_slot *slot, void *memory)
{
	__u64 version = READ_ONCE(slot->version);
	__u32 length = frame->length, ahead = 1, last_octet;
	struct rtw_value *value, *last;

	barrier_var(length);
	if (length > RTW_DATA_BYTES) {
		rtw_count(channel, oversize);
		return XDP_DROP;
	}
	/* Another processor writes to this slot; its value is just as new. */
	if (version & 1 ||
	    __sync_val_compare_and_swap(&slot->version, version,
					version + 1) != version) {
		rtw_count(channel, busy);
		return XDP_DROP;
	}
	last = &slot->value[(version >> 1) % RTW_BUFFERS];
	if (version)
		ahead = rtw_ahead(slot, last, frame);
	if (!ahead) {
		channel->stale++;
		/* No buffer was touched, so the old version is right. */
		__sync_fetch_and_sub(&slot->version, 1);
		return XDP_DROP;
	}

	value = &slot->value[((version >> 1) + 1) % RTW_BUFFERS];
	value->arrival_ns = bpf_ktime_get_tai_ns();
	value->sender_ns = frame->sender_ns;
	value->offered = last->offered + ahead;
	value->sequence = frame->sequence;
	value->source = frame->source;
	value->length = length;
	value->priority = frame->priority;
	/* The verifier of Linux 6.1 learns nothing from `length != 0`. */
	last_octet = length - 1;
	barrier_var(last_octet);
	if (last_octet < RTW_DATA_BYTES &&
	    bpf_xdp_load_bytes(ctx, frame->data_at, value->data,
			       last_octet + 1)) {
		/* Cannot happen; value n stays, as number n + RTW_BUFFERS. */
		__sync_fetch_and_add(&slot->version, 2 * RTW_BUFFERS - 1);
		return XDP_DROP;
	}
	channel->missing += ahead - 1;
	if (memory)
		rtw_note_arrival(channel, slot, memory, value);
	rtw_publish(slot->version, version + 2);
	return rtw_wake(&slot->wakes, &slot->asleep);
}

#endif
