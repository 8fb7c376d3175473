/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Police: a token bucket for each channel, stored as the time when it will be
 * full again. A frame's time on the link is added to that time. The frame
 * conforms if the result is no further away than the burst's time on the link.
 * All is rounded in the sender's favour: a conforming frame is never dropped.
 */
#ifndef RTWIRE_RECEIVE_POLICE_H
#define RTWIRE_RECEIVE_POLICE_H

#include <linux/if_ether.h>

#include "receive.h"
#include "rtwire_bpf.h"

#define RTW_POLICE_TRIES 8

/* Returns 1 if a frame of `bytes` is within its channel's contract, else 0. */
static __always_inline int rtw_conforms(struct rtw_channel *channel,
					__u64 bytes)
{
	__u64 byte_time = channel->police_byte_time;
	__u64 wire, cost, now;

	if (!byte_time)
		return 1;
	wire = (bytes < ETH_ZLEN ? ETH_ZLEN : bytes) + channel->police_overhead;
	cost = wire * byte_time >> 8;
	now = bpf_ktime_get_ns() << 8;
	for (int i = 0; i < RTW_POLICE_TRIES; i++) {
		__u64 until = READ_ONCE(channel->police_until);
		__u64 ahead = (__s64)(until - now) > 0 ? until - now : 0;

		if (ahead + cost > channel->police_burst)
			return 0;
		if (__sync_val_compare_and_swap(&channel->police_until, until,
						now + ahead + cost) == until)
			return 1;
	}
	return 0;
}

#endif
