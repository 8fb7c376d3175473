// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The floor under a round trip: raw packet sockets, as a careful C programmer uses them. Nothing is checked, counted or sorted.
 * A reader that spins looks at a receive ring. One that blocks makes one call for each frame: poll and a ring would be dearer.
 *
 * usage: floor ask|answer spin|block INTERFACE PEER_MAC CORE PRIORITY
 *
 * Each line of the standard input orders round trips: WARM_UP COUNT BYTES. `ask` writes how many of COUNT came back, and the
 * time of each in ns, as words of 64 bits. `answer` writes one word, 0, when it has answered all. Both write 0 when they are ready.
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
#include <unistd.h>

#define ETHER_TYPE 0x88b6
#define HEADER_BYTES 14
#define LEAST_BYTES 60
#define PLACES 256u
#define PLACE_BYTES 2048u
#define PATIENCE_NS 1000000000ull
#define MOST_TRIPS 65536

static unsigned char *ring;
static unsigned int next;
static int sock, spinning;
static unsigned char frame[PLACE_BYTES], received[PLACE_BYTES];
static uint64_t out[MOST_TRIPS + 1];

static int fail(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static struct tpacket2_hdr *place(void)
{
	return (struct tpacket2_hdr *)(ring + next * PLACE_BYTES);
}

static int is_there(void)
{
	return __atomic_load_n(&place()->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

/* Waits for a frame of this length; 0 if none comes in time. */
static int receive(unsigned int bytes)
{
	uint64_t start = 0;
	unsigned int turn;
	int whole;

	if (!spinning)
		return recv(sock, received, sizeof(received), 0) == (ssize_t)bytes;
	for (turn = 1; !is_there(); turn++) {
		if (turn % 1024 == 0) {
			if (!start)
				start = now_ns();
			else if (now_ns() - start > PATIENCE_NS)
				return 0;
		}
	}
	whole = place()->tp_len == bytes;
	__atomic_store_n(&place()->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	next = (next + 1) % PLACES;
	return whole;
}

static int open_socket(const char *interface)
{
	struct timeval patience = { .tv_sec = PATIENCE_NS / 1000000000ull };
	struct tpacket_req want = { .tp_block_size = 16 * PLACE_BYTES, .tp_block_nr = PLACES / 16,
				    .tp_frame_size = PLACE_BYTES, .tp_frame_nr = PLACES };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHER_TYPE) };
	int version = TPACKET_V2, on = 1;

	at.sll_ifindex = (int)if_nametoindex(interface);
	if (!at.sll_ifindex)
		return fail(interface);
	/* Protocol 0 until it is bound: no frame of another interface gets in. */
	sock = socket(AF_PACKET, SOCK_RAW, 0);
	if (sock < 0)
		return fail("socket");
	if (setsockopt(sock, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) ||
	    setsockopt(sock, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return fail("setsockopt");
	if (spinning) {
		if (setsockopt(sock, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
		    setsockopt(sock, SOL_PACKET, PACKET_RX_RING, &want, sizeof(want)))
			return fail("setsockopt");
		ring = mmap(NULL, PLACES * PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sock, 0);
		if (ring == MAP_FAILED)
			return fail("mmap");
	}
	if (bind(sock, (struct sockaddr *)&at, sizeof(at)))
		return fail("bind");
	return 0;
}

int main(int argc, char **argv)
{
	struct sched_param param = { 0 };
	unsigned int mac[6], warm_up, count, data, bytes, turn;
	cpu_set_t cores;
	uint64_t start;
	char line[64];
	int asks, i;

	if (argc != 7 || sscanf(argv[4], "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) != 6) {
		fprintf(stderr, "usage: floor ask|answer spin|block INTERFACE PEER_MAC CORE PRIORITY\n");
		return 2;
	}
	asks = !strcmp(argv[1], "ask");
	spinning = !strcmp(argv[2], "spin");
	if (open_socket(argv[3]))
		return 1;
	for (i = 0; i < 6; i++)
		frame[i] = (unsigned char)mac[i];
	frame[12] = ETHER_TYPE >> 8;
	frame[13] = ETHER_TYPE & 0xff;
	CPU_ZERO(&cores);
	CPU_SET(atoi(argv[5]), &cores);
	if (sched_setaffinity(0, sizeof(cores), &cores))
		return fail("sched_setaffinity");
	param.sched_priority = atoi(argv[6]);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return fail("sched_setscheduler");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	/* Ready: what comes from now on waits in the socket. */
	if (write(STDOUT_FILENO, out, sizeof(out[0])) < 0)
		return fail("write");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%u %u %u", &warm_up, &count, &data) != 3 || count > MOST_TRIPS ||
		    data + HEADER_BYTES > sizeof(frame))
			return 2;
		bytes = data + HEADER_BYTES;
		if (bytes < LEAST_BYTES)
			bytes = LEAST_BYTES;
		out[0] = 0;
		for (turn = 0; turn < warm_up + count; turn++) {
			start = now_ns();
			if (asks && send(sock, frame, bytes, 0) < 0)
				return fail("send");
			if (!receive(bytes))
				break;
			if (asks && turn >= warm_up)
				out[++out[0]] = now_ns() - start;
			if (!asks && send(sock, frame, bytes, 0) < 0)
				return fail("send");
		}
		if (write(STDOUT_FILENO, out, (out[0] + 1) * sizeof(out[0])) < 0)
			return fail("write");
	}
	return 0;
}
