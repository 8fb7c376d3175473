/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Respond: the question's own frame goes back as the answer. Addresses and ports
 * are swapped, and the question's number stays. The answer carries the time at
 * which the question came, and the content that user space prepared, patched
 * with fields of the question.
 *
 * Only questions from an asking port are answered, and no responder has such a
 * port. Otherwise two responders would answer each other for ever.
 */
#ifndef RTWIRE_RECEIVE_RESPOND_H
#define RTWIRE_RECEIVE_RESPOND_H

#include <linux/if_ether.h>

#include "receive.h"
#include "receive_frame.h"
#include "receive_patch.h"

#define RTW_REPLY_TRIES 4
/* Bytes of content that fit even the shortest frame. */
#define RTW_LEAST_CONTENT (ETH_ZLEN - ETH_HLEN - RTW_HEADER_BYTES - RTW_TIME_BYTES)

#ifdef RTW_ASKS_FOR_TAGS
/* The kernel has it from Linux 6.8 on, for programs that are loaded for one interface. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *protocol,
					__u16 *tci) SEC(".ksyms");

/*
 * Puts the VLAN tag that the card keeps outside of the frame into the frame.
 * Otherwise the answer would leave without. Returns XDP_TX where the frame can
 * be answered now; XDP_PASS where it has two tags, or one of another kind.
 */
static __always_inline int rtw_take_tag(struct xdp_md *ctx, struct rtw_frame *frame)
{
	__u8 head[ETH_HLEN - 2 + RTW_TAG_BYTES];
	__be16 protocol = 0;
	__u16 tci = 0;

	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &protocol, &tci))
		return XDP_TX;
	if (protocol != bpf_htons(ETH_P_8021Q) || frame->at != ETH_HLEN)
		return XDP_PASS;
	if (bpf_xdp_load_bytes(ctx, 0, head, ETH_HLEN - 2))
		return XDP_DROP;
	head[ETH_HLEN - 2] = ETH_P_8021Q >> 8;
	head[ETH_HLEN - 1] = ETH_P_8021Q & 0xff;
	head[ETH_HLEN] = tci >> 8;
	head[ETH_HLEN + 1] = tci & 0xff;
	if (bpf_xdp_adjust_head(ctx, -RTW_TAG_BYTES) ||
	    bpf_xdp_store_bytes(ctx, 0, head, sizeof(head)))
		return XDP_DROP;
	frame->at += RTW_TAG_BYTES;
	frame->data_at += RTW_TAG_BYTES;
	frame->bytes += RTW_TAG_BYTES;
	return XDP_TX;
}
#else
/* A driver that does not tell it keeps none outside, or is refused (HiddenTags). */
static __always_inline int rtw_take_tag(struct xdp_md *ctx, struct rtw_frame *frame)
{
	return XDP_TX;
}
#endif

/* Writes the headers of the answer over those of the question. */
static __always_inline int rtw_answer_headers(struct xdp_md *ctx,
					      const struct rtw_frame *frame,
					      const struct rtw_control *control,
					      __u32 length)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u64 at = frame->at;
	struct rtw_header *header;
	struct ethhdr *eth = data;
	__u16 port;

	/*
	 * Two layouts, with and without tag, each at a constant offset: without
	 * CAP_PERFMON, a pointer takes no offset that was chosen before.
	 */
	header = data + ETH_HLEN;
	barrier_var(header);
	if (at != ETH_HLEN) {
		header = data + ETH_HLEN + RTW_TAG_BYTES;
		barrier_var(header);
	}
	if ((void *)(header + 1) > end)
		return -1;
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	/* The station's own address, also if the question went to a group. */
	__builtin_memcpy(eth->h_source, control->mac, ETH_ALEN);
	port = header->destination_port;
	header->destination_port = header->source_port;
	header->source_port = port;
	header->length = bpf_htons((__u16)length);
	if (!(header->version_flags & RTW_FLAG_TIME))
		return 0;
	if ((void *)(header + 1) + RTW_TIME_BYTES > end)
		return -1;
	*(struct rtw_time *)(header + 1) =
		(struct rtw_time){ bpf_cpu_to_be64(bpf_ktime_get_tai_ns()) };
	return 0;
}

/* Sets the frame to the answer's length, and copies the prepared content. */
static __always_inline int rtw_answer_content(struct xdp_md *ctx,
					      const struct rtw_frame *frame,
					      struct rtw_channel *channel,
					      const struct rtw_content *content,
					      const struct rtw_patch_source *source,
					      __u32 *length)
{
	__u32 at = frame->at + RTW_HEADER_BYTES + RTW_TIME_BYTES;
	__u32 copied = READ_ONCE(content->length);
	int now = bpf_xdp_get_buff_len(ctx);

	/* The first content with patches came just now. */
	if (READ_ONCE(content->patches) && !source) {
		rtw_count(channel, unanswered);
		return -1;
	}
	*length = copied;
	if (copied < RTW_LEAST_CONTENT)
		copied = RTW_LEAST_CONTENT;
	barrier_var(copied);
	if (copied > RTW_REPLY_BYTES)
		return -1;
	if (at + copied != now && bpf_xdp_adjust_tail(ctx, at + copied - now)) {
		/* The driver decides how far a frame may grow. */
		rtw_count(channel, no_room);
		return -1;
	}
	/* Never 0, but the verifier no longer knows that; the one of
	 * Linux 6.1 learns nothing from `copied != 0`. */
	copied--;
	barrier_var(copied);
	if (copied >= RTW_REPLY_BYTES)
		return -1;
	if (bpf_xdp_store_bytes(ctx, at, content->data, copied + 1))
		return -1;
	if (!content->patches)
		return 0;
	/* As above, where this content was replaced meanwhile. */
	if (!source) {
		rtw_count(channel, unanswered);
		return -1;
	}
	return rtw_patch_apply(ctx, at, content, source);
}

static __always_inline int rtw_set_time_flag(struct xdp_md *ctx,
					     const struct rtw_frame *frame)
{
	__u8 octet = RTW_VERSION << 4 | RTW_FLAG_TIME |
		     (frame->flags & RTW_FLAG_NEWEST);

	return bpf_xdp_store_bytes(ctx, frame->at, &octet, 1);
}

static __always_inline int rtw_respond(struct xdp_md *ctx,
				       const struct rtw_frame *frame,
				       const struct rtw_control *control,
				       struct rtw_channel *channel,
				       struct rtw_reply *reply,
				       struct rtw_patch_source *source)
{
	__u32 length = frame->length;
	__u64 version;
	int i;

	/* A frame from a group address, or from no asking port, is no question. */
	if ((__u16)frame->source < RTW_FIRST_ASKING_PORT ||
	    frame->source >> 56 & 1) {
		rtw_count(channel, no_question);
		return XDP_DROP;
	}
	if (!reply->echo) {
		if (source &&
		    rtw_patch_collect(ctx, frame->data_at, frame->length,
				      frame->sequence, source))
			goto unanswered;
		for (i = 0; i < RTW_REPLY_TRIES; i++) {
			version = READ_ONCE(reply->version);
			if (rtw_answer_content(ctx, frame, channel,
					       &reply->content[version % RTW_BUFFERS],
					       source, &length))
				return XDP_DROP;
			/* A full barrier: the copy is made before this read. */
			if (__sync_fetch_and_add(&reply->version, 0) - version < RTW_BUFFERS - 1)
				break;
		}
		if (i == RTW_REPLY_TRIES || rtw_set_time_flag(ctx, frame))
			goto unanswered;
	}
	if (rtw_answer_headers(ctx, frame, control, length))
		goto unanswered;
	rtw_count(channel, accepted);
	return XDP_TX;
unanswered:
	rtw_count(channel, unanswered);
	return XDP_DROP;
}

#endif
