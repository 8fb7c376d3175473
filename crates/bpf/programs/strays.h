/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layouts that the filter for stray frames shares with its process: 64-bit
 * words. crates/link/src/strays.rs has the same numbers; a test compares them.
 */
#ifndef RTWIRE_STRAYS_H
#define RTWIRE_STRAYS_H

#include <linux/types.h>

/* Unknown ports with a counter each: 2 to the power of RTW_STRAY_BITS. Ports
 * without a place are counted together. */
#define RTW_STRAY_PORTS 1024
#define RTW_STRAY_BITS 10
/* Places tried for a port, from the upper bits of port * RTW_STRAY_SPREAD on. */
#define RTW_STRAY_TRIES 4
#define RTW_STRAY_SPREAD 2654435761u
/* Words of 64 bits, one bit for each port. */
#define RTW_STRAY_TAKEN 1024
/* As `port`: the socket has no port and takes no frames. */
#define RTW_STRAY_NO_PORT 65536

struct rtw_strays {
	__u64 mac;		/* the interface's address, as a number */
	__u64 port;		/* the port whose frames the socket takes */
	__u64 truncated;
	__u64 wrong_version;
	__u64 crowded;		/* frames for unknown ports without a place */
};

struct rtw_stray_port {
	__u64 name;		/* the port + 1; 0: free */
	__u64 frames;
};

#endif
