// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Answers to OPC UA PubSub messages (UADP over Ethernet), in the driver (XDP).
 *
 * A pair is a question and its answer. The question is a message of one writer
 * group with a fixed layout and without security: its headers are compared byte
 * for byte, and its length. The answer is the newest message that user space
 * has prepared. The program counts its sequence numbers up, and copies fields
 * of the question into it. The question's VLAN tag stays.
 *
 * User space renews the answer by a store. Without renewal answers end after
 * the lease. They also end where questions come much faster than described: two
 * stations that answer each other would else never stop.
 *
 * Every UADP frame to a question's address is put into a ring in memory, with
 * its time. So the subscriber gets answered questions, too, and sees whatever
 * else comes. A frame that is not answered goes on to Linux, unchanged. So do
 * all other frames.
 */
#include <linux/if_ether.h>

#include "pubsub.h"
#include "rtwire_bpf.h"

#define ETH_P_UADP 0xb62c
#define RTW_PS_TRIES 4
#define RTW_PS_TAG_BYTES 4
#define RTW_PS_HEAD_BYTES (RTW_PS_WINDOWS * 8)
/* The longest payload of a padded frame; the same behind a VLAN tag. */
#define RTW_PS_PADDED 46
#define RTW_PS_TAGGED_PADDED 42

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_ps_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PS_RING);
	__type(key, __u32);
	__type(value, struct rtw_ps_record);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PS_PAIRS);
	__type(key, __u32);
	__type(value, struct rtw_ps_pair);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PS_PAIRS *RTW_PS_BUFFERS);
	__type(key, __u32);
	__type(value, struct rtw_ps_content);
} contents SEC(".maps");

/* What one processor keeps of a question while it writes the answer over it. */
struct rtw_ps_scratch {
	__u64 head[RTW_PS_WINDOWS];
	__u8 copied[RTW_PS_COPIES][RTW_PS_COPY_BYTES];
	__u8 header[ETH_HLEN + RTW_PS_TAG_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_ps_scratch);
} scratch SEC(".maps");

/* A frame with UADP's EtherType. */
struct rtw_ps_frame {
	__u64 destination;
	__u32 bytes;		/* of the frame, as it is in memory */
	__u32 at;		/* offset of the message */
	__u32 length;		/* of the message, with padding */
	__u16 tci;
	__u8 tagged;
	__u8 group_source;	/* 1: from a group address: no question */
};

#ifdef RTW_ASKS_FOR_TAGS
/* The kernel has it from Linux 6.8 on, for programs that are loaded for one interface. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *protocol,
					__u16 *tci) SEC(".ksyms");

/* Reads a tag that the card keeps outside of the frame. Not 0: the frame is not ours. */
static __always_inline int rtw_ps_outer_tag(struct xdp_md *ctx, struct rtw_ps_frame *frame)
{
	__be16 protocol = 0;
	__u16 tci = 0;

	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &protocol, &tci))
		return 0;
	if (protocol != bpf_htons(ETH_P_8021Q) || frame->tagged)
		return -1;
	frame->tagged = 1;
	frame->tci = tci;
	return 0;
}
#else
static __always_inline int rtw_ps_outer_tag(struct xdp_md *ctx, struct rtw_ps_frame *frame)
{
	return 0;
}
#endif

/* Fills `frame`; returns 0 where it is no UADP frame. */
static __always_inline int rtw_ps_parse(struct xdp_md *ctx, struct rtw_ps_frame *frame)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u16 type;

	if (data + ETH_HLEN > end)
		return 0;
	type = eth->h_proto;
	frame->at = ETH_HLEN;
	frame->tagged = 0;
	frame->tci = 0;
	if (type == bpf_htons(ETH_P_8021Q)) {
		if (data + ETH_HLEN + RTW_PS_TAG_BYTES > end)
			return 0;
		frame->tci = bpf_ntohs(*(__u16 *)(data + ETH_HLEN));
		type = *(__u16 *)(data + ETH_HLEN + RTW_PS_TAG_BYTES - 2);
		frame->at = ETH_HLEN + RTW_PS_TAG_BYTES;
		frame->tagged = 1;
	}
	if (type != bpf_htons(ETH_P_UADP))
		return 0;
	frame->destination = 0;
	__builtin_memcpy(&frame->destination, eth->h_dest, ETH_ALEN);
	frame->group_source = eth->h_source[0] & 1;
	/* The difference of two pointers would need CAP_PERFMON. */
	frame->bytes = bpf_xdp_get_buff_len(ctx);
	frame->length = frame->bytes - frame->at;
	return rtw_ps_outer_tag(ctx, frame) == 0;
}

/* Copies the front of the message, with zeros behind its end. */
static __always_inline int rtw_ps_front(struct xdp_md *ctx, const struct rtw_ps_frame *frame,
					struct rtw_ps_scratch *kept)
{
	__u32 length = frame->length;

	__builtin_memset(kept->head, 0, sizeof(kept->head));
	if (length > RTW_PS_HEAD_BYTES)
		length = RTW_PS_HEAD_BYTES;
	if (!length)
		return 0;
	/* Never 0; the verifier of Linux 6.1 learns nothing from that test. */
	length--;
	barrier_var(length);
	if (length >= RTW_PS_HEAD_BYTES)
		return -1;
	return bpf_xdp_load_bytes(ctx, frame->at, kept->head, length + 1);
}

/* Puts the frame into the ring; `rtw_ps_show` makes the record visible. */
static __always_inline struct rtw_ps_record *
rtw_ps_record(struct xdp_md *ctx, struct rtw_ps_control *common,
	      const struct rtw_ps_frame *frame, __u64 *number)
{
	__u32 last_octet = frame->bytes - 1;
	struct rtw_ps_record *record;
	__u32 index;

	barrier_var(last_octet);
	if (last_octet >= RTW_PS_FRAME_BYTES) {
		rtw_count(common, oversize);
		return 0;
	}
	*number = __sync_fetch_and_add(&common->head, 1);
	index = *number % RTW_PS_RING;
	record = bpf_map_lookup_elem(&ring, &index);
	if (!record)
		return 0;
	/* A reader of the old frame sees that it is being replaced. */
	__sync_lock_test_and_set(&record->number, 0);
	record->arrival_ns = bpf_ktime_get_tai_ns();
	record->length = last_octet + 1;
	record->did = 0;
	if (bpf_xdp_load_bytes(ctx, 0, record->data, last_octet + 1))
		record->length = 0;
	return record;
}

static __always_inline void rtw_ps_show(struct rtw_ps_record *record, __u64 number,
					__u64 did)
{
	record->did = did;
	__sync_lock_test_and_set(&record->number, number + 1);
}

/* Returns 1 where the message is the pair's question. */
static __always_inline int rtw_ps_is_question(struct rtw_ps_pair *pair,
					      const struct rtw_ps_frame *frame,
					      const struct rtw_ps_scratch *kept)
{
	__u64 differs = 0, data = 0, length = frame->length;

	if (length != pair->length &&
	    (length < pair->length || length > RTW_PS_PADDED))
		return 0;
#pragma unroll
	for (int i = 0; i < RTW_PS_WINDOWS; i++) {
		differs |= (kept->head[i] ^ pair->value[i]) & pair->mask[i];
		data |= kept->head[i] & pair->data[i];
	}
	if (differs || frame->group_source)
		return 0;
	/* A padded heartbeat looks the same. */
	if (length <= RTW_PS_PADDED && !data && !pair->zeros_are_data &&
	    (length != pair->length || length == RTW_PS_PADDED ||
	     length == RTW_PS_TAGGED_PADDED)) {
		rtw_count(pair, ambiguous);
		return 0;
	}
	return 1;
}

/* Returns 1 where one more answer is within the pair's rate. */
static __always_inline int rtw_ps_in_time(struct rtw_ps_pair *pair, __u64 now)
{
	for (int i = 0; i < RTW_PS_TRIES; i++) {
		__u64 full = READ_ONCE(pair->full_ns);
		__u64 ahead = (__s64)(full - now) > 0 ? full - now : 0;

		if (ahead > pair->burst_ns)
			return 0;
		if (__sync_val_compare_and_swap(&pair->full_ns, full,
						now + ahead + pair->gap_ns) == full)
			return 1;
	}
	return 0;
}

/* Keeps the fields of the question that the answer takes. */
static __always_inline int rtw_ps_keep(struct xdp_md *ctx, const struct rtw_ps_frame *frame,
				       const struct rtw_ps_pair *pair,
				       struct rtw_ps_scratch *kept)
{
#pragma unroll
	for (int i = 0; i < RTW_PS_COPIES; i++) {
		__u64 copy = pair->copy[i];
		__u32 length = copy & 0xff, from = copy >> 16 & 0xffff;

		if (!length)
			return 0;
		length--;
		barrier_var(length);
		if (length >= RTW_PS_COPY_BYTES ||
		    bpf_xdp_load_bytes(ctx, frame->at + from, kept->copied[i], length + 1))
			return -1;
	}
	return 0;
}

/* Writes the fields of the question, and the number, into the answer at `at`. */
static __always_inline int rtw_ps_finish(struct xdp_md *ctx, __u32 at,
					 struct rtw_ps_pair *pair,
					 struct rtw_ps_scratch *kept)
{
	__u64 sequence;
	__u8 octets[2];

#pragma unroll
	for (int i = 0; i < RTW_PS_COPIES; i++) {
		__u64 copy = pair->copy[i];
		__u32 length = copy & 0xff, to = copy >> 32 & 0xffff;

		if (!length)
			break;
		length--;
		barrier_var(length);
		if (length >= RTW_PS_COPY_BYTES ||
		    bpf_xdp_store_bytes(ctx, at + to, kept->copied[i], length + 1))
			return -1;
	}
	sequence = __sync_fetch_and_add(&pair->next_sequence, 1);
	octets[0] = sequence;
	octets[1] = sequence >> 8;
	return bpf_xdp_store_bytes(ctx, at + (__u32)pair->sequence_at, octets, 2) ||
	       bpf_xdp_store_bytes(ctx, at + (__u32)pair->writer_sequence_at, octets, 2);
}

/*
 * Gives the frame the answer's length. At its front, where drivers leave room;
 * else at its end. All of it is written anew.
 */
static __always_inline int rtw_ps_resize(struct xdp_md *ctx, int more)
{
	return more && bpf_xdp_adjust_head(ctx, -more) && bpf_xdp_adjust_tail(ctx, more);
}

/* Writes the Ethernet header; the question's tag stays. */
static __always_inline int rtw_ps_header(struct xdp_md *ctx, const struct rtw_ps_frame *frame,
					 const struct rtw_ps_control *common,
					 const struct rtw_ps_pair *pair,
					 struct rtw_ps_scratch *kept)
{
	__u8 *header = kept->header;

	__builtin_memcpy(header, &pair->answer_to, ETH_ALEN);
	__builtin_memcpy(header + ETH_ALEN, common->mac, ETH_ALEN);
	if (!frame->tagged) {
		header[12] = ETH_P_UADP >> 8;
		header[13] = ETH_P_UADP & 0xff;
		return bpf_xdp_store_bytes(ctx, 0, header, ETH_HLEN);
	}
	header[12] = ETH_P_8021Q >> 8;
	header[13] = ETH_P_8021Q & 0xff;
	header[14] = frame->tci >> 8;
	header[15] = frame->tci & 0xff;
	header[16] = ETH_P_UADP >> 8;
	header[17] = ETH_P_UADP & 0xff;
	return bpf_xdp_store_bytes(ctx, 0, header, ETH_HLEN + RTW_PS_TAG_BYTES);
}

/* Makes the question's frame the answer. XDP_PASS: it is left as it was. */
static __always_inline int rtw_ps_answer(struct xdp_md *ctx, const struct rtw_ps_frame *frame,
					 const struct rtw_ps_control *common, __u32 index,
					 struct rtw_ps_pair *pair,
					 struct rtw_ps_scratch *kept)
{
	__u64 now = bpf_ktime_get_ns(), version;
	struct rtw_ps_content *content;
	__u32 length, at = ETH_HLEN, entry;
	int i;

	if (!READ_ONCE(pair->armed)) {
		rtw_count(pair, unarmed);
		return XDP_PASS;
	}
	/* The signed difference: user space may just have renewed. */
	if ((__s64)(now - READ_ONCE(pair->renewed_ns)) > (__s64)pair->lease_ns) {
		rtw_count(pair, lapsed);
		return XDP_PASS;
	}
	if (!rtw_ps_in_time(pair, now)) {
		rtw_count(pair, too_soon);
		return XDP_PASS;
	}
	if (frame->tagged)
		at += RTW_PS_TAG_BYTES;
	/* Zeros behind a short message, up to the shortest frame. */
	length = pair->answer_length;
	if (at + length < ETH_ZLEN)
		length = ETH_ZLEN - at;
	if (rtw_ps_keep(ctx, frame, pair, kept) ||
	    rtw_ps_resize(ctx, (int)(at + length) - (int)frame->bytes)) {
		rtw_count(pair, no_room);
		return XDP_PASS;
	}
	/* Never 0; the verifier of Linux 6.1 learns nothing from that test. */
	length--;
	for (i = 0; i < RTW_PS_TRIES; i++) {
		version = READ_ONCE(pair->version);
		entry = index * RTW_PS_BUFFERS + version % RTW_PS_BUFFERS;
		content = bpf_map_lookup_elem(&contents, &entry);
		barrier_var(length);
		if (!content || length >= RTW_PS_MESSAGE_BYTES ||
		    bpf_xdp_store_bytes(ctx, at, content->data, length + 1))
			return XDP_DROP;
		/* A full barrier: the copy is made before this read. */
		if (__sync_fetch_and_add(&pair->version, 0) - version < RTW_PS_BUFFERS - 1)
			break;
	}
	if (i == RTW_PS_TRIES) {
		rtw_count(pair, torn);
		return XDP_DROP;
	}
	if (rtw_ps_header(ctx, frame, common, pair, kept) ||
	    rtw_ps_finish(ctx, at, pair, kept))
		return XDP_DROP;
	rtw_count(pair, answered);
	return XDP_TX;
}

SEC("xdp")
int pubsub(struct xdp_md *ctx)
{
	struct rtw_ps_control *common;
	struct rtw_ps_record *record;
	struct rtw_ps_scratch *kept;
	struct rtw_ps_frame frame;
	struct rtw_ps_pair *pair;
	__u32 zero = 0, i, asked = RTW_PS_PAIRS;
	__u64 number = 0;
	int mine = 0, verdict = XDP_PASS;

	if (!rtw_ps_parse(ctx, &frame))
		return XDP_PASS;
	common = bpf_map_lookup_elem(&control, &zero);
	kept = bpf_map_lookup_elem(&scratch, &zero);
	if (!common || !kept || rtw_ps_front(ctx, &frame, kept))
		return XDP_PASS;
	for (i = 0; i < RTW_PS_PAIRS && i < common->pairs; i++) {
		__u32 index = i;

		pair = bpf_map_lookup_elem(&pairs, &index);
		if (!pair || pair->destination != frame.destination ||
		    (pair->vlan != RTW_PS_ANY_VLAN &&
		     (!frame.tagged || pair->vlan != (frame.tci & 0xfff))))
			continue;
		mine = 1;
		if (rtw_ps_is_question(pair, &frame, kept)) {
			asked = i;
			break;
		}
		rtw_count(pair, others);
	}
	if (!mine)
		return XDP_PASS;
	record = rtw_ps_record(ctx, common, &frame, &number);
	if (!record)
		return XDP_PASS;
	if (asked < RTW_PS_PAIRS) {
		pair = bpf_map_lookup_elem(&pairs, &asked);
		if (pair)
			verdict = rtw_ps_answer(ctx, &frame, common, asked, pair, kept);
	}
	rtw_ps_show(record, number, verdict == XDP_TX ? RTW_PS_ANSWERED : 0);
	return verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
