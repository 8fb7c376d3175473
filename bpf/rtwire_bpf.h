/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What every BPF program of rtwire needs, and no more: section and map
 * macros, the helpers in use by their numbers in the kernel's stable
 * interface, byte order.
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

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) =
	(void *)BPF_FUNC_map_lookup_elem;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

#define bpf_htons(x) ((__u16)__builtin_bswap16(x))

#endif
