/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue: copies every frame once, into the ring of its priority, in the
 * channel's own memory. The reader maps it and needs no system call. To wake a
 * sleeping reader, the frame goes on to Linux, where the reader has a packet
 * socket.
 */
#ifndef RTWIRE_RECEIVE_QUEUE_H
#define RTWIRE_RECEIVE_QUEUE_H

#include "receive.h"
#include "receive_frame.h"

#define RTW_QUEUE_TRIES 8

/*
 * Takes the next position of a level; returns 0 if the ring is full. Several
 * processors may do so at once. The reader's cache line is read only when the
 * ring seems full.
 */
static __always_inline int rtw_take_place(struct rtw_queue *queue, __u32 level,
					  __u64 places, __u64 *position)
{
	for (int i = 0; i < RTW_QUEUE_TRIES; i++) {
		__u64 head = READ_ONCE(queue->head[level]);

		if (head - READ_ONCE(queue->freed[level]) >= places) {
			__u64 tail = READ_ONCE(queue->tail[level]);

			queue->freed[level] = tail;
			if (head - tail >= places)
				return 0;
		}
		if (__sync_val_compare_and_swap(&queue->head[level], head,
						head + 1) == head) {
			*position = head;
			return 1;
		}
	}
	return 0;
}

static __always_inline int rtw_queue(struct xdp_md *ctx,
				     const struct rtw_frame *frame,
				     struct rtw_channel *channel, void *memory)
{
	__u32 length = frame->length, index = 0, level, last_octet;
	struct rtw_place *place;
	struct rtw_queue *queue;
	__u64 position, places;

	barrier_var(length);
	if (length > RTW_DATA_BYTES) {
		rtw_count(channel, oversize);
		return XDP_DROP;
	}
	queue = bpf_map_lookup_elem(memory, &index);
	if (!queue)
		goto broken;
	places = queue->places;
	level = frame->priority & queue->levels & (RTW_LEVELS - 1);
	if (!rtw_take_place(queue, level, places, &position)) {
		__sync_fetch_and_add(&queue->full[level], 1);
		return XDP_DROP;
	}
	index = 1 + level * places + (position & (places - 1));
	place = bpf_map_lookup_elem(memory, &index);
	if (!place)
		goto broken;
	place->arrival_ns = queue->stamps ? bpf_ktime_get_tai_ns() : 0;
	place->sender_ns = frame->sender_ns;
	place->source = frame->source;
	place->sequence = frame->sequence;
	place->length = length;
	place->priority = frame->priority;
	/* The verifier of Linux 6.1 learns nothing from `length != 0`. */
	last_octet = length - 1;
	barrier_var(last_octet);
	/* This cannot fail; the place must be handed over in any case. */
	if (last_octet < RTW_DATA_BYTES &&
	    bpf_xdp_load_bytes(ctx, frame->data_at, place->data,
			       last_octet + 1))
		place->length = 0;
	rtw_publish(place->turn, position + 1);
	return rtw_wake(&queue->wakes, &queue->asleep);
broken:
	rtw_count(channel, broken);
	return XDP_DROP;
}

#endif
