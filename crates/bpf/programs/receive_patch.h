/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Patch: copies bytes of the question, its number and its arrival time into the
 * prepared answer, at the places that the answer's content names.
 *
 * This file is independent of the protocol. The responder first collects the
 * sources from the question (`rtw_patch_collect`). It then writes the content
 * over the question, and patches it (`rtw_patch_apply`).
 */
#ifndef RTWIRE_RECEIVE_PATCH_H
#define RTWIRE_RECEIVE_PATCH_H

#include "receive.h"
#include "rtwire_bpf.h"

/*
 * The source of patches; each names an offset in it. It lies in a map: a
 * variable offset on the stack would need CAP_PERFMON.
 */
struct rtw_patch_source {
	__u8 question[RTW_PATCH_QUESTION]; /* its user data, then zeros */
	__u32 sequence;			   /* its number, network order */
	__u32 zero;
	__u64 arrival_ns;		   /* CLOCK_TAI, network order */
	__u64 room;			   /* for a copy that begins before it */
};

/*
 * Collects the sources from a question with `length` bytes of data at `data_at`.
 */
static __always_inline int rtw_patch_collect(struct xdp_md *ctx, __u32 data_at,
					     __u32 length, __u32 sequence,
					     struct rtw_patch_source *source)
{
	/* The last question was another one; its data may have been longer. */
	__builtin_memset(source, 0, sizeof(*source));
	source->sequence = bpf_htonl(sequence);
	source->arrival_ns = bpf_cpu_to_be64(bpf_ktime_get_tai_ns());
	if (length > RTW_PATCH_QUESTION)
		length = RTW_PATCH_QUESTION;
	if (!length)
		return 0;
	/* Never 0; the verifier of Linux 6.1 learns nothing from that test. */
	length--;
	barrier_var(length);
	if (length >= RTW_PATCH_QUESTION)
		return -1;
	return bpf_xdp_load_bytes(ctx, data_at, source->question, length + 1);
}

/* Patches the content, which begins at `at` in the frame. */
static __always_inline int rtw_patch_apply(struct xdp_md *ctx, __u32 at,
					   const struct rtw_content *content,
					   const struct rtw_patch_source *source)
{
	/*
	 * Each patch at a constant offset: without CAP_PERFMON, an instruction may
	 * not add another number to a pointer in each round.
	 */
#pragma unroll
	for (int i = 0; i < RTW_PATCHES; i++) {
		__u64 patch = READ_ONCE(content->patch[i]);
		__u32 length = patch & 0xff;
		__u32 from = patch >> 16 & 0xffff;
		__u32 to = patch >> 32 & 0xffff;

		if (!length)
			return 0;
		length--;
		barrier_var(length);
		barrier_var(from);
		if (length >= RTW_PATCH_BYTES ||
		    from > sizeof(*source) - RTW_PATCH_BYTES)
			return -1;
		if (bpf_xdp_store_bytes(ctx, at + to, (__u8 *)source + from,
					length + 1))
			return -1;
	}
	return 0;
}

#endif
