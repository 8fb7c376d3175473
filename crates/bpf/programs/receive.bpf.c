// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The receive program of one interface (XDP).
 *
 * It looks for RTDiP frames to this station, with at most one VLAN tag, and
 * applies the action of their port's channel: newest value, queue, respond, or
 * pass. All of them are policed first. All other frames go to Linux unchanged.
 * So do RTDiP frames that are faulty or for a port without a channel here:
 * packet sockets serve other ports, and count faulty frames.
 */
#include <linux/if_ether.h>

#include "receive.h"
#include "receive_frame.h"
#include "receive_newest.h"
#include "receive_police.h"
#include "receive_queue.h"
#include "receive_respond.h"
#include "rtwire_bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PORTS);
	__type(key, __u32);
	__type(value, struct rtw_port_entry);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_CHANNELS);
	__type(key, __u32);
	__type(value, struct rtw_channel);
} channels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_CHANNELS);
	__type(key, __u32);
	__type(value, struct rtw_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_CHANNELS);
	__type(key, __u32);
	__type(value, struct rtw_reply);
} replies SEC(".maps");

/* The type of a queue's memory; each channel's has a length of its own. */
struct rtw_queue_memory {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rtw_place));
};

/* Puts the layouts among the object's types, for the test. */
const struct rtw_queue *rtw_queue_type __attribute__((unused));
const struct rtw_place *rtw_place_type __attribute__((unused));
const struct rtw_note *rtw_note_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RTW_CHANNELS);
	__type(key, __u32);
	__array(values, struct rtw_queue_memory);
} queues SEC(".maps");

/* The type of a channel's arrival notes; each channel's has a length of its own. */
struct rtw_note_memory {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rtw_note));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RTW_CHANNELS);
	__type(key, __u32);
	__array(values, struct rtw_note_memory);
} notes SEC(".maps");

/* Where one processor collects the sources of an answer's patches. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_patch_source);
} patch_sources SEC(".maps");

static __always_inline int for_this_station(const __u8 *to, const __u8 *own)
{
	const __u16 *a = (const __u16 *)to, *b = (const __u16 *)own;

	return to[0] & 1 || (a[0] == b[0] && a[1] == b[1] && a[2] == b[2]);
}

/* Fills `frame`; returns 0 if it is not for us, or faulty (then counted). */
static __always_inline int parse(struct xdp_md *ctx,
				 struct rtw_control *control,
				 struct rtw_frame *frame)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct rtw_header *header = data + ETH_HLEN;
	const __u8 *from;
	__u32 room;
	__u16 type;

	if (data + ETH_HLEN > end)
		return 0;
	frame->at = ETH_HLEN;
	type = eth->h_proto;
	if (type == bpf_htons(ETH_P_8021Q)) {
		if (data + ETH_HLEN + RTW_TAG_BYTES > end)
			return 0;
		type = *(__u16 *)(data + ETH_HLEN + RTW_TAG_BYTES - 2);
		frame->at = ETH_HLEN + RTW_TAG_BYTES;
		header = data + ETH_HLEN + RTW_TAG_BYTES;
	}
	if (bpf_ntohs(type) != (__u16)control->ether_type ||
	    !for_this_station(eth->h_dest, control->mac))
		return 0;

	if ((void *)(header + 1) > end)
		goto truncated;
	if (header->version_flags >> 4 != RTW_VERSION) {
		rtw_count(control, wrong_version);
		return 0;
	}
	frame->flags = header->version_flags & 0xf;
	if (frame->flags & ~(RTW_FLAG_NEWEST | RTW_FLAG_TIME))
		goto malformed;
	/* The difference of two pointers would need CAP_PERFMON. */
	frame->bytes = bpf_xdp_get_buff_len(ctx);
	frame->data_at = frame->at + RTW_HEADER_BYTES;
	frame->sender_ns = 0;
	if (frame->flags & RTW_FLAG_TIME) {
		const struct rtw_time *time = (void *)(header + 1);

		if ((void *)(time + 1) > end)
			goto truncated;
		frame->sender_ns = bpf_be64_to_cpu(time->ns);
		frame->data_at += RTW_TIME_BYTES;
	}
	room = frame->bytes - frame->data_at;
	frame->length = bpf_ntohs(header->length);
	if (frame->length > room) {
		rtw_count(control, wrong_length);
		return 0;
	}
	frame->priority = header->priority;
	if (frame->priority > 7)
		goto malformed;
	frame->port = bpf_ntohs(header->destination_port);
	frame->sequence = bpf_ntohl(header->sequence);
	frame->key = bpf_ntohl(header->key);
	from = eth->h_source;
	frame->source = (__u64)from[0] << 56 | (__u64)from[1] << 48 |
			(__u64)from[2] << 40 | (__u64)from[3] << 32 |
			(__u64)from[4] << 24 | (__u64)from[5] << 16 |
			bpf_ntohs(header->source_port);
	return 1;
truncated:
	rtw_count(control, truncated);
	return 0;
malformed:
	rtw_count(control, malformed);
	return 0;
}

SEC("xdp")
int receive(struct xdp_md *ctx)
{
	struct rtw_port_entry *entry;
	struct rtw_channel *channel;
	struct rtw_control *common;
	struct rtw_frame frame;
	struct rtw_reply *reply;
	struct rtw_slot *slot;
	__u32 index = 0;
	void *memory;
	int verdict;

	common = bpf_map_lookup_elem(&control, &index);
	if (!common || !parse(ctx, common, &frame))
		return XDP_PASS;
	index = frame.port;
	entry = bpf_map_lookup_elem(&ports, &index);
	if (!entry)
		return XDP_PASS;
	if (!entry->channel) {
		rtw_count(entry, passed);
		return XDP_PASS;
	}
	index = entry->channel - 1;
	channel = bpf_map_lookup_elem(&channels, &index);
	if (!channel || channel->action == RTW_FREE)
		return XDP_PASS;

	/* The key first: another channel's frames do not empty this one's bucket. */
	if (channel->action != RTW_PASS && frame.key != (__u32)channel->key) {
		rtw_count(channel, wrong_key);
		return XDP_DROP;
	}
	if ((channel->action == RTW_NEWEST &&
	     !(frame.flags & RTW_FLAG_NEWEST)) ||
	    (channel->action == RTW_QUEUE && frame.flags & RTW_FLAG_NEWEST)) {
		rtw_count(channel, wrong_semantics);
		return XDP_DROP;
	}
	if (!rtw_conforms(channel, frame.bytes)) {
		rtw_count(channel, policed);
		return XDP_DROP;
	}
	if (channel->action == RTW_QUEUE) {
		memory = bpf_map_lookup_elem(&queues, &index);
		return memory ? rtw_queue(ctx, &frame, channel, memory) :
				XDP_PASS;
	}
	if (channel->action == RTW_NEWEST) {
		slot = bpf_map_lookup_elem(&slots, &index);
		if (!slot)
			return XDP_PASS;
		memory = 0;
		if (slot->notes)
			memory = bpf_map_lookup_elem(&notes, &index);
		return rtw_newest(ctx, &frame, channel, slot, memory);
	}
	if (channel->action == RTW_RESPOND) {
		reply = bpf_map_lookup_elem(&replies, &index);
		if (!reply)
			return XDP_PASS;
		memory = 0;
		if (reply->patched) {
			index = 0;
			memory = bpf_map_lookup_elem(&patch_sources, &index);
		}
		verdict = rtw_take_tag(ctx, &frame);
		if (verdict != XDP_TX) {
			rtw_count(channel, unanswered);
			return verdict;
		}
		return rtw_respond(ctx, &frame, common, channel, reply, memory);
	}
	rtw_count(channel, accepted);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
