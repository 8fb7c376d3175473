// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The isochronous phase of POWERLINK, in the driver (XDP).
 *
 * Controlled node: a poll request is answered at once with the response that
 * user space has prepared. In PollResponse chaining, the managing node's
 * response counts as the request, and the answer leaves at its set time after
 * it. Managing node: a poll response makes the next poll leave.
 *
 * User space renews what it has prepared, by a store in each cycle. A program
 * that stands still renews nothing: answers end after the watchdog's cycles,
 * and a chain at its time.
 *
 * Every frame for the node's state machine is put into a ring in memory, with
 * its time and the program's action. So the state machine gets the same frames
 * in the same order as without this program. Only frames that cannot wait wake
 * it: they are passed on to its packet socket. Frames of other protocols go to
 * Linux unchanged.
 */
#include <linux/if_ether.h>

#include "powerlink.h"
#include "rtwire_bpf.h"

#define ETH_P_POWERLINK 0x88ab
#define RTW_PL_SOC 1
#define RTW_PL_PREQ 3
#define RTW_PL_PRES 4
#define RTW_PL_TRIES 4
#define RTW_PL_MN 240
/* Readings of the clock: more than fit into the longest wait. */
#define RTW_PL_LOOKS (1 << 20)

/* The header of every POWERLINK frame. */
struct rtw_pl_header {
	__u8 destination_mac[ETH_ALEN];
	__u8 source_mac[ETH_ALEN];
	__u16 type;
	__u8 message;
	__u8 destination;
	__u8 source;
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_pl_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PL_RING);
	__type(key, __u32);
	__type(value, struct rtw_pl_record);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_pl_response);
} response SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtw_pl_chain);
} chain SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RTW_PL_POLLS *RTW_PL_CYCLES);
	__type(key, __u32);
	__type(value, struct rtw_pl_prepared);
} polls SEC(".maps");

/* Puts the frame into the ring; `rtw_pl_show` makes the record visible. */
static __always_inline struct rtw_pl_record *
rtw_pl_record(struct xdp_md *ctx, struct rtw_pl_control *common, __u64 now,
	      __u64 *number)
{
	__u32 length = (long)ctx->data_end - (long)ctx->data;
	struct rtw_pl_record *record;
	__u32 last_octet;
	__u32 index;

	barrier_var(length);
	if (length > RTW_PL_FRAME_BYTES || length < sizeof(struct rtw_pl_header)) {
		__sync_fetch_and_add(&common->malformed, 1);
		return 0;
	}
	*number = __sync_fetch_and_add(&common->head, 1);
	index = *number % RTW_PL_RING;
	record = bpf_map_lookup_elem(&ring, &index);
	if (!record)
		return 0;
	/* A reader of the old frame sees that it is being replaced. */
	__sync_lock_test_and_set(&record->number, 0);
	record->arrival_ns = now;
	record->length = length;
	record->did = 0;
	record->cycle = READ_ONCE(common->cycle);
	/* Checked already, but the verifier no longer knows it; the one of Linux
	 * 6.1 learns nothing from `length != 0`. */
	last_octet = length - 1;
	barrier_var(last_octet);
	if (last_octet >= RTW_PL_FRAME_BYTES ||
	    bpf_xdp_load_bytes(ctx, 0, record->data, last_octet + 1))
		record->length = 0;
	return record;
}

static __always_inline void rtw_pl_show(struct rtw_pl_record *record,
					__u64 number, __u64 did)
{
	record->did = did;
	__sync_lock_test_and_set(&record->number, number + 1);
}

/* Replaces the frame by a prepared one; not 0 if that is empty or does not fit. */
static __always_inline int rtw_pl_become(struct xdp_md *ctx,
					 const struct rtw_pl_prepared *prepared)
{
	__u32 length = READ_ONCE(prepared->length);
	long now = (long)ctx->data_end - (long)ctx->data;

	barrier_var(length);
	if (length > RTW_PL_FRAME_BYTES || length < ETH_ZLEN)
		return -1;
	if (length != now && bpf_xdp_adjust_tail(ctx, (int)(length - now)))
		return -1;
	barrier_var(length);
	if (!length || length > RTW_PL_FRAME_BYTES)
		return -1;
	return bpf_xdp_store_bytes(ctx, 0, prepared->data, length);
}

/* The frame's sender, as in `control`. */
static __always_inline __u64 rtw_pl_sender(const struct rtw_pl_header *header)
{
	__u64 mac = 0;

	__builtin_memcpy(&mac, header->source_mac, ETH_ALEN);
	return mac;
}

/* Not 0 where the managing node, once it is known, has sent the frame. */
static __always_inline int rtw_pl_is_managing(const struct rtw_pl_control *common,
					      const struct rtw_pl_header *header)
{
	__u64 managing = READ_ONCE(common->managing);

	return header->source == RTW_PL_MN &&
	       (!managing || rtw_pl_sender(header) == managing);
}

/*
 * Counts the cycles that the watchdog goes by: SoC, and poll requests without a
 * SoC between them.
 */
static __always_inline void rtw_pl_count(struct rtw_pl_control *common,
					 __u8 message)
{
	__u64 polled = __sync_lock_test_and_set(&common->polled,
						message != RTW_PL_SOC);

	if (message == RTW_PL_SOC || polled)
		__sync_fetch_and_add(&common->cycle, 1);
}

/* Answers a poll request for this node. */
static __always_inline int rtw_pl_answer(struct xdp_md *ctx,
					 struct rtw_pl_control *common,
					 struct rtw_pl_record *record,
					 __u64 number)
{
	struct rtw_pl_response *ready;
	__u32 zero = 0;
	__u64 version;
	int i;

	ready = bpf_map_lookup_elem(&response, &zero);
	if (!ready || !ready->armed)
		goto left;
	/* The signed difference: user space may just have renewed. */
	if ((__s64)(READ_ONCE(common->cycle) - READ_ONCE(ready->renewed)) >
	    (__s64)READ_ONCE(common->watchdog)) {
		__sync_fetch_and_add(&common->lapsed, 1);
		goto left;
	}
	for (i = 0; i < RTW_PL_TRIES; i++) {
		version = READ_ONCE(ready->version);
		if (rtw_pl_become(ctx, &ready->prepared[version % RTW_PL_BUFFERS]))
			goto left;
		/* A full barrier: the copy is made before this read. */
		if (__sync_fetch_and_add(&ready->version, 0) - version < RTW_PL_BUFFERS - 1) {
			__sync_fetch_and_add(&common->answered, 1);
			rtw_pl_show(record, number, RTW_PL_ANSWERED);
			return XDP_TX;
		}
	}
left:
	__sync_fetch_and_add(&common->unanswered, 1);
	rtw_pl_show(record, number, 0);
	return XDP_PASS;
}

static long rtw_pl_is_due(__u32 look, __u64 *due_ns)
{
	(void)look;
	return bpf_ktime_get_ns() >= *due_ns;
}

/*
 * Answers the managing node's response, on a node that is chained behind it. XDP
 * cannot put a frame aside, so the processor waits with it: no longer than a
 * chain of some ten nodes takes.
 */
static __always_inline int rtw_pl_answer_in_chain(struct xdp_md *ctx,
						  struct rtw_pl_control *common,
						  struct rtw_pl_record *record,
						  __u64 number, __u64 now)
{
	__u64 after_ns = READ_ONCE(common->after_ns);
	__u64 due_ns = now + after_ns;

	if (after_ns > RTW_PL_LONGEST_WAIT_NS) {
		__sync_fetch_and_add(&common->unanswered, 1);
		rtw_pl_show(record, number, 0);
		return XDP_PASS;
	}
	bpf_loop(RTW_PL_LOOKS, rtw_pl_is_due, &due_ns, 0);
	return rtw_pl_answer(ctx, common, record, number);
}

/* Sends the next poll if this is the poll response that is waited for. */
static __always_inline int rtw_pl_next(struct xdp_md *ctx,
				       struct rtw_pl_control *common,
				       struct rtw_pl_record *record,
				       __u64 number, __u8 source, __u64 now)
{
	struct rtw_pl_prepared *waiting, *next;
	struct rtw_pl_chain *links;
	__u32 zero = 0, index, base;
	__u64 turn, count;

	links = bpf_map_lookup_elem(&chain, &zero);
	if (!links)
		goto pass;
	turn = READ_ONCE(links->turn);
	base = turn >> 32 & 1;
	count = base ? links->count[1] : links->count[0];
	base *= RTW_PL_POLLS;
	index = (__u32)turn;
	/* The last response of a cycle wakes user space. */
	if (index + 1 >= count || index + 1 >= RTW_PL_POLLS)
		goto pass;
	index += base;
	if (now > READ_ONCE(links->until_ns)) {
		__sync_fetch_and_add(&common->lapsed, 1);
		goto pass;
	}
	waiting = bpf_map_lookup_elem(&polls, &index);
	if (!waiting || waiting->node != source)
		goto pass;
	index++;
	next = bpf_map_lookup_elem(&polls, &index);
	if (!next ||
	    __sync_val_compare_and_swap(&links->turn, turn, turn + 1) != turn)
		goto pass;
	if (rtw_pl_become(ctx, next)) {
		/* User space is woken, and finds that it has to send this poll. */
		__sync_val_compare_and_swap(&links->turn, turn + 1, turn);
		__sync_fetch_and_add(&common->unchained, 1);
		rtw_pl_show(record, number, 0);
		return XDP_PASS;
	}
	__sync_fetch_and_add(&common->chained, 1);
	rtw_pl_show(record, number, RTW_PL_CHAINED);
	return XDP_TX;
pass:
	rtw_pl_show(record, number, 0);
	return XDP_PASS;
}

SEC("xdp")
int powerlink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct rtw_pl_header *header = data;
	struct rtw_pl_record *record;
	struct rtw_pl_control *common;
	__u8 message, destination, source;
	__u64 number = 0, now;
	__u32 zero = 0;
	int answers;

	if (data + ETH_HLEN > end || header->type != bpf_htons(ETH_P_POWERLINK))
		return XDP_PASS;
	common = bpf_map_lookup_elem(&control, &zero);
	if (!common)
		return XDP_PASS;
	if ((void *)(header + 1) > end) {
		__sync_fetch_and_add(&common->malformed, 1);
		return XDP_PASS;
	}
	message = header->message & 0x7f;
	destination = header->destination;
	source = header->source;
	if (message == RTW_PL_PRES &&
	    !(common->wanted[source >> 6 & 3] >> (source & 63) & 1)) {
		__sync_fetch_and_add(&common->unwanted, 1);
		return XDP_DROP;
	}
	/* A switch that has not learned an address yet floods the other nodes' polls. */
	if (message == RTW_PL_PREQ &&
	    (!(common->role & RTW_PL_CONTROLLED) ||
	     destination != (__u8)common->node))
		return XDP_DROP;
	if (message == RTW_PL_PREQ && !rtw_pl_is_managing(common, header)) {
		__sync_fetch_and_add(&common->foreign, 1);
		return XDP_DROP;
	}
	answers = message == RTW_PL_PREQ ||
		  (message == RTW_PL_PRES && source == RTW_PL_MN &&
		   common->role & RTW_PL_CONTROLLED && common->chained_in &&
		   rtw_pl_is_managing(common, header));
	if (answers || (message == RTW_PL_SOC && common->role & RTW_PL_CONTROLLED &&
			rtw_pl_is_managing(common, header)))
		rtw_pl_count(common, message);

	now = bpf_ktime_get_ns();
	record = rtw_pl_record(ctx, common, now, &number);
	if (!record)
		return XDP_PASS;
	if (message == RTW_PL_PREQ)
		return rtw_pl_answer(ctx, common, record, number);
	if (answers)
		return rtw_pl_answer_in_chain(ctx, common, record, number, now);
	if (message == RTW_PL_PRES && common->role & RTW_PL_MANAGING)
		return rtw_pl_next(ctx, common, record, number, source, now);
	rtw_pl_show(record, number, 0);
	/*
	 * A controlled node reads the SoC and the other nodes' responses when
	 * the SoA wakes it.
	 */
	if (!(common->role & RTW_PL_MANAGING) &&
	    (message == RTW_PL_SOC || message == RTW_PL_PRES))
		return XDP_DROP;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
