/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The common part of rtwire's BPF programs: section and map macros, byte
 * order, and the helpers in use, by their numbers in the kernel's stable
 * interface.
 */
#ifndef RTWIRE_BPF_H
#define RTWIRE_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name) __attribute__((section(name), used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name[]

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) =
	(void *)BPF_FUNC_map_lookup_elem;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*const bpf_ktime_get_tai_ns)(void) =
	(void *)BPF_FUNC_ktime_get_tai_ns;
static __u32 (*const bpf_get_smp_processor_id)(void) =
	(void *)BPF_FUNC_get_smp_processor_id;
static long (*const bpf_skb_load_bytes)(const void *skb, __u32 offset,
					void *to, __u32 length) =
	(void *)BPF_FUNC_skb_load_bytes;
static long (*const bpf_loop)(__u32 times, void *callback, void *context,
			      __u64 flags) = (void *)BPF_FUNC_loop;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) =
	(void *)BPF_FUNC_redirect;
static long (*const bpf_redirect_peer)(__u32 ifindex, __u64 flags) =
	(void *)BPF_FUNC_redirect_peer;
static long (*const bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) =
	(void *)BPF_FUNC_xdp_adjust_head;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *ctx, int delta) =
	(void *)BPF_FUNC_xdp_adjust_tail;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) =
	(void *)BPF_FUNC_xdp_get_buff_len;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset,
					void *to, __u32 length) =
	(void *)BPF_FUNC_xdp_load_bytes;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *ctx, __u32 offset,
					 const void *from, __u32 length) =
	(void *)BPF_FUNC_xdp_store_bytes;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define bpf_htons(x) ((__u16)__builtin_bswap16(x))
#define bpf_htonl(x) ((__u32)__builtin_bswap32(x))
#define bpf_cpu_to_be64(x) ((__u64)__builtin_bswap64(x))
#else
#define bpf_htons(x) ((__u16)(x))
#define bpf_htonl(x) ((__u32)(x))
#define bpf_cpu_to_be64(x) ((__u64)(x))
#endif
#define bpf_ntohs(x) bpf_htons(x)
#define bpf_ntohl(x) bpf_htonl(x)
#define bpf_be64_to_cpu(x) bpf_cpu_to_be64(x)

/* A value that another processor, or user space, may change meanwhile. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
/* Keeps the compiler from removing a bound that the verifier has to see. */
#define barrier_var(x) asm volatile("" : "+r"(x))

/*
 * Adds one to a counter of a structure. Compilers join the ends of several
 * branches, and add the counter's offset to the pointer there. Without
 * CAP_PERFMON the kernel refuses such an addition; an instruction with a
 * constant offset cannot be joined with another.
 */
#define rtw_count(structure, field)                            \
	asm volatile("lock *(u64 *)(%0 + %1) += %2"            \
		     :                                         \
		     : "r"(structure),                         \
		       "i"(__builtin_offsetof(typeof(*(structure)), field)), \
		       "r"(1ULL)                               \
		     : "memory")

/*
 * Stores a word after all earlier stores. On processors that keep stores in
 * order (x86; the build sets RTW_ORDERED_STORES), only the compiler has to be
 * kept from reordering.
 */
#ifdef RTW_ORDERED_STORES
#define rtw_publish(word, value)                            \
	do {                                                \
		asm volatile("" : : : "memory");            \
		*(volatile __u64 *)&(word) = (value);       \
	} while (0)
#else
#define rtw_publish(word, value) __sync_lock_test_and_set(&(word), (value))
#endif

#endif
