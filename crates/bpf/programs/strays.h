/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the filter that counts strays shares with its process. Words of 64
 * bits; crates/link/src/strays.rs has the same numbers, and a test compares.
 */
#ifndef RTWIRE_STRAYS_H
#define RTWIRE_STRAYS_H

#include <linux/types.h>

/* Unknown ports that are told apart, 2 to the power of RTW_STRAY_BITS; those that find no place are counted together. */
#define RTW_STRAY_PORTS 1024
#define RTW_STRAY_BITS 10
/* A port looks for a place so often, from the upper bits of port * RTW_STRAY_SPREAD on. */
#define RTW_STRAY_TRIES 4
#define RTW_STRAY_SPREAD 2654435761u
/* Words of 64 bits, one bit for each port. */
#define RTW_STRAY_TAKEN 1024
/* As `port`: the socket is nobody's, it takes nothing. */
#define RTW_STRAY_NO_PORT 65536

struct rtw_strays {
	__u64 mac;		/* of the interface, as a number */
	__u64 port;		/* whose frames the socket takes */
	__u64 truncated;
	__u64 wrong_version;
	__u64 crowded;		/* for unknown ports that found no place */
};

struct rtw_stray_port {
	__u64 name;		/* the port + 1; 0: free */
	__u64 frames;
};

#endif
