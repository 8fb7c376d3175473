// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The plainest cyclic sender: an absolute sleep and a sendto, as a careful C programmer writes it.
 *
 * usage: bare INTERFACE DESTINATION INTERVAL_NS FRAMES PRIORITY
 *
 * Frames of 64 bytes leave at whole multiples of the interval of CLOCK_TAI. Memory is locked, the thread has SCHED_FIFO.
 * A late wake-up moves no later instant; instants that have passed are made up for at once.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define ETHER_TYPE 0x88b6
#define FRAME_BYTES 64
#define START_NS 300000000ull

static int fail(const char *what)
{
	fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
	struct sched_param param = { 0 };
	unsigned char frame[FRAME_BYTES] = { 0 };
	unsigned int mac[6];
	struct timespec now;
	uint64_t interval, due;
	long frames;
	int fd, i;

	if (argc != 6 ||
	    sscanf(argv[2], "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2],
		   &mac[3], &mac[4], &mac[5]) != 6) {
		fprintf(stderr, "usage: bare INTERFACE DESTINATION INTERVAL_NS FRAMES PRIORITY\n");
		return 2;
	}
	interval = strtoull(argv[3], NULL, 10);
	frames = strtol(argv[4], NULL, 10);
	param.sched_priority = atoi(argv[5]);
	if (!interval)
		return 2;
	to.sll_ifindex = (int)if_nametoindex(argv[1]);
	if (!to.sll_ifindex)
		return fail(argv[1]);
	for (i = 0; i < 6; i++)
		frame[i] = to.sll_addr[i] = (unsigned char)mac[i];
	frame[12] = ETHER_TYPE >> 8;
	frame[13] = ETHER_TYPE & 0xff;
	/* Protocol 0: nothing is received. */
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0)
		return fail("socket");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return fail("sched_setscheduler");
	clock_gettime(CLOCK_TAI, &now);
	due = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + START_NS;
	due -= due % interval;
	for (; frames > 0; frames--, due += interval) {
		struct timespec at = { (time_t)(due / 1000000000ull), (long)(due % 1000000000ull) };

		while (clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
		if (sendto(fd, frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
			return fail("sendto");
	}
	return 0;
}
