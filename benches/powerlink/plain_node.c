// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The plainest controlled node of POWERLINK: a raw socket, a blocking recv, a send of a frame that is ready.
 *
 * usage: plain_node INTERFACE NODE PRIORITY
 *
 * It boots under a managing node that writes no configuration: identification, status, NMT commands, one octet of process
 * data. No object, no service data, no supervision. Any stack in user space does all of this and more for an answer, so
 * its lateness is the least that this machine allows. Memory is locked, the thread has SCHED_FIFO. It runs until it is killed.
 *
 * Layout of the frames: EPSG DS 301, 4.6.1.1 and 7.3.3.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ETHER_TYPE 0x88ab
#define MANAGING_NODE 240
#define BROADCAST 255
#define FRAME_MOST 1514
#define SHORTEST 60
#define IDENT_BYTES 176
#define STATUS_BYTES 72

/* Places in a frame. */
enum {
	TYPE = 14,
	TO = 15,
	FROM = 16,
	SERVICE = 17, /* of ASnd */
	COMMAND = 18, /* of an NMT command */
	SOA_FLAGS = 18,
	SOA_SERVICE = 20,
	SOA_TARGET = 21,
};

enum { SOC = 1, PREQ = 3, PRES = 4, SOA = 5, ASND = 6 };
enum { IDENT = 1, STATUS = 2, NMT_COMMAND = 4 };
enum { PRE_OPERATIONAL_1 = 0x1d, STOPPED = 0x4d, PRE_OPERATIONAL_2 = 0x5d, READY = 0x6d, OPERATIONAL = 0xfd };

static unsigned char in[FRAME_MOST], pres[SHORTEST], ident[IDENT_BYTES], status[STATUS_BYTES];
static unsigned char state = PRE_OPERATIONAL_1;
static int node;

static int fail(const char *what)
{
	fprintf(stderr, "plain_node: %s: %s\n", what, strerror(errno));
	return 1;
}

static void begin(unsigned char *frame, const unsigned char *mac, unsigned char group, unsigned char type,
		  unsigned char to)
{
	const unsigned char multicast[6] = { 0x01, 0x11, 0x1e, 0, 0, group };

	memcpy(frame, multicast, 6);
	memcpy(frame + 6, mac, 6);
	frame[12] = ETHER_TYPE >> 8;
	frame[13] = ETHER_TYPE & 0xff;
	frame[TYPE] = type;
	frame[TO] = to;
	frame[FROM] = (unsigned char)node;
}

static void prepare(const unsigned char *mac)
{
	begin(pres, mac, 2, PRES, BROADCAST);
	pres[22] = 1; /* one octet of process data */
	begin(ident, mac, 4, ASND, BROADCAST);
	ident[SERVICE] = IDENT;
	ident[22] = 0x20; /* version 2.0 */
	ident[24] = 0x01; /* isochronous */
	ident[28] = 300 & 0xff; /* the longest asynchronous frame */
	ident[29] = 300 >> 8;
	ident[30] = 1; /* process data in, out */
	ident[32] = 1;
	begin(status, mac, 4, ASND, BROADCAST);
	status[SERVICE] = STATUS;
}

static void obey(unsigned char command)
{
	switch (command) {
	case 0x21:
		if (state == READY)
			state = OPERATIONAL;
		break;
	case 0x22:
		state = STOPPED;
		break;
	case 0x23:
		state = PRE_OPERATIONAL_2;
		break;
	case 0x24:
		if (state == PRE_OPERATIONAL_2)
			state = READY;
		break;
	case 0x28:
	case 0x29:
	case 0x2a:
	case 0x2b:
		state = PRE_OPERATIONAL_1;
		break;
	}
}

/* Returns the number of bytes to send, and the frame; 0 for none. */
static size_t answer(ssize_t length, unsigned char **out)
{
	if (length < SHORTEST || in[FROM] != MANAGING_NODE)
		return 0;
	switch (in[TYPE]) {
	case SOC:
		if (state == PRE_OPERATIONAL_1)
			state = PRE_OPERATIONAL_2;
		return 0;
	case PREQ:
		if (in[TO] != node || state == PRE_OPERATIONAL_1 || state == STOPPED)
			return 0;
		pres[17] = state;
		pres[18] = state == OPERATIONAL; /* RD */
		*out = pres;
		return sizeof(pres);
	case SOA:
		if (in[SOA_TARGET] != node)
			return 0;
		if (in[SOA_SERVICE] == IDENT) {
			ident[20] = state;
			*out = ident;
			return sizeof(ident);
		}
		if (in[SOA_SERVICE] == STATUS) {
			status[18] = in[SOA_FLAGS] & 0x02 ? 0x08 : 0; /* EC follows ER */
			status[20] = state;
			*out = status;
			return sizeof(status);
		}
		return 0;
	case ASND:
		if (in[SERVICE] == NMT_COMMAND && (in[TO] == node || in[TO] == BROADCAST))
			obey(in[COMMAND]);
		return 0;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll here = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHER_TYPE) };
	struct sched_param param = { 0 };
	struct ifreq request = { 0 };
	unsigned char group;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: plain_node INTERFACE NODE PRIORITY\n");
		return 2;
	}
	node = atoi(argv[2]);
	param.sched_priority = atoi(argv[3]);
	here.sll_ifindex = (int)if_nametoindex(argv[1]);
	if (!here.sll_ifindex)
		return fail(argv[1]);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0)
		return fail("socket");
	strncpy(request.ifr_name, argv[1], IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		return fail("SIOCGIFHWADDR");
	prepare((unsigned char *)request.ifr_hwaddr.sa_data);
	for (group = 1; group <= 4; group++) {
		struct packet_mreq member = { .mr_ifindex = here.sll_ifindex,
					      .mr_type = PACKET_MR_MULTICAST,
					      .mr_alen = 6,
					      .mr_address = { 0x01, 0x11, 0x1e, 0, 0, group } };

		if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, sizeof(member)))
			return fail("PACKET_ADD_MEMBERSHIP");
	}
	if (bind(fd, (struct sockaddr *)&here, sizeof(here)))
		return fail("bind");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return fail("sched_setscheduler");
	for (;;) {
		unsigned char *out = NULL;
		ssize_t length = recv(fd, in, sizeof(in), 0);
		size_t bytes = answer(length, &out);

		if (length < 0 && errno != EINTR && errno != ENETDOWN)
			return fail("recv");
		if (bytes && send(fd, out, bytes, 0) < 0)
			return fail("send");
	}
}
