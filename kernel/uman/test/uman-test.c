// SPDX-License-Identifier: GPL-2.0
/* What the kernel lab needs on both ends of a cable: programs upon /dev/uman, and raw sockets that judge them from outside. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../include/uman_abi.h"

#define TYPE 0x88ab
#define QUESTION 0x03
#define ANSWER 0x04
#define CYCLE 0x01
#define SEQUENCE 20 /* where a frame has its number, 4 bytes */
#define BODY 24     /* from here all bytes are alike: the number's last one */
#define SIZE 200

static void die(const char *what, ...)
{
	va_list list;

	va_start(list, what);
	vfprintf(stderr, what, list);
	va_end(list);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_until(clockid_t clock, uint64_t at)
{
	struct timespec t = { at / 1000000000, at % 1000000000 };

	while (clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void realtime(int priority)
{
	struct sched_param p = { .sched_priority = priority };

	if (sched_setscheduler(0, SCHED_FIFO, &p))
		die("SCHED_FIFO");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	prctl(PR_SET_TIMERSLACK, 1);
}

static unsigned int index_of(const char *name)
{
	unsigned int index = if_nametoindex(name);

	if (!index)
		die("interface %s", name);
	return index;
}

static int raw_socket(const char *name, unsigned int type, bool bypass)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(type), .sll_ifindex = index_of(name) };
	int s = socket(AF_PACKET, SOCK_RAW, 0), one = 1;

	if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)))
		die("packet socket on %s", name);
	setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	one = 4 << 20;
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &one, sizeof(one));
	one = 1;
	if (bypass)
		setsockopt(s, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	return s;
}

/* Receives one frame and its kernel time; returns its length, 0 behind `wait_ms`. Own frames are left out. */
static int receive(int s, uint8_t *frame, uint64_t *stamp, int wait_ms)
{
	char control[256];
	struct sockaddr_ll from;
	struct iovec vector = { frame, 2048 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_name = &from };
	struct pollfd p = { .fd = s, .events = POLLIN };
	int length;

	do {
		if (poll(&p, 1, wait_ms) <= 0)
			return 0;
		message.msg_controllen = sizeof(control);
		message.msg_namelen = sizeof(from);
		length = recvmsg(s, &message, 0);
	} while (length < 0 || from.sll_pkttype == PACKET_OUTGOING);
	*stamp = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec *t = (void *)CMSG_DATA(c);

			*stamp = t->tv_sec * 1000000000ull + t->tv_nsec;
		}
	return length;
}

static void make_frame(uint8_t *frame, uint8_t message, uint8_t node, uint32_t number)
{
	static const uint8_t to[6] = { 0x02, 0, 0, 0, 0, 2 }, from[6] = { 0x02, 0, 0, 0, 0, 1 };

	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	frame[12] = TYPE >> 8;
	frame[13] = TYPE & 0xff;
	frame[14] = message;
	frame[15] = node;
	memset(frame + 16, 0, 4);
	memcpy(frame + SEQUENCE, &number, 4);
	memset(frame + BODY, number & 0xff, SIZE - BODY);
}

/* A frame's number; -1 if its body is of two contents. */
static int64_t number_of(const uint8_t *frame, int length)
{
	uint32_t number;

	memcpy(&number, frame + SEQUENCE, 4);
	for (int i = BODY; i < SIZE && i < length; i++)
		if (frame[i] != (number & 0xff))
			return -1;
	return number;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_figures(const char *name, uint64_t *values, unsigned int count)
{
	qsort(values, count, sizeof(*values), compare);
	if (!count) {
		printf("%s count=0\n", name);
		return;
	}
	printf("%s count=%u min=%llu p50=%llu p99=%llu max=%llu spread=%llu\n", name, count, (unsigned long long)values[0],
	       (unsigned long long)values[count / 2], (unsigned long long)values[(uint64_t)count * 99 / 100],
	       (unsigned long long)values[count - 1], (unsigned long long)(values[count - 1] - values[0]));
}

struct attachment {
	int file;
	struct uman_attach layout;
	struct uman_shared *shared;
	uint8_t *area;
};

static struct attachment attach(const char *name, unsigned int cyclic, unsigned int reply, unsigned int newest, unsigned int ring)
{
	struct attachment a = { .layout = { .version = UMAN_ABI_VERSION, .ifindex = index_of(name), .cyclic = cyclic,
					    .reply = reply, .newest = newest, .ring = ring } };

	a.file = open("/dev/uman", O_RDWR);
	if (a.file < 0)
		die("/dev/uman");
	if (ioctl(a.file, UMAN_IOC_ATTACH, &a.layout))
		die("attach to %s", name);
	a.area = mmap(NULL, a.layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, a.file, 0);
	if (a.area == MAP_FAILED)
		die("map");
	a.shared = (void *)a.area;
	return a;
}

static void publish(struct uman_outgoing *o, const uint8_t *frame, uint32_t length)
{
	uint32_t next = o->generation + 1;
	struct uman_buffer *b = &o->buffer[next % UMAN_BUFFERS];

	memcpy(b->data, frame, length);
	b->length = length;
	__atomic_store_n(&o->generation, next, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * Publishes into the very buffer that the kernel may be copying: the three others first, whose contents are older but whole.
 * A reader that is not careful sees two contents in one frame.
 */
static void publish_at_once(struct uman_outgoing *o, const uint8_t *frame, uint32_t length)
{
	uint32_t now = o->generation;
	struct uman_buffer *b = &o->buffer[now % UMAN_BUFFERS];

	__atomic_store_n(&o->generation, now + 3, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(b->data, frame, length);
	b->length = length;
	__atomic_store_n(&o->generation, now + 4, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void renew(struct uman_outgoing *o) { __atomic_fetch_add(&o->renewed, 1, __ATOMIC_RELAXED); }

/* cyclic INTERFACE PERIOD_NS CYCLES LEASE RENEWALS [LEAD_NS]: a cyclic frame; new content and a renewal each cycle, RENEWALS times. */
static int cyclic(char **argument)
{
	uint64_t period = atoll(argument[1]), cycles = atoll(argument[2]), renewals = atoll(argument[4]);
	struct attachment a = attach(argument[0], 1, 0, 0, 0);
	struct uman_outgoing *o = (void *)(a.area + a.layout.cyclic_at);
	struct uman_confirmation *done = (void *)(a.area + a.layout.confirm_at);
	struct uman_cyclic c = { .clock = CLOCK_MONOTONIC, .period_ns = period, .lease_cycles = atoi(argument[3]),
				 .flags = UMAN_SEND_CONFIRM, .lead_ns = argument[5] ? atoi(argument[5]) : 0 };
	static uint64_t handed[1 << 20];
	unsigned int count = 0;
	uint8_t frame[SIZE];
	uint32_t tail = 0;

	make_frame(frame, CYCLE, 1, 0);
	publish(o, frame, SIZE);
	/* First: on a slow kernel it takes longer than a lease. */
	realtime(20);
	c.start_ns = (now_ns(CLOCK_MONOTONIC) / period + 20) * period;
	if (ioctl(a.file, UMAN_IOC_CYCLIC, &c))
		die("cyclic frame");
	for (uint64_t i = 0; i < cycles; i++) {
		sleep_until(CLOCK_MONOTONIC, c.start_ns + i * period + period / 2);
		if (i < renewals) {
			make_frame(frame, CYCLE, 1, i + 1);
			publish(o, frame, SIZE);
			renew(o);
		}
		for (; tail != __atomic_load_n(&a.shared->confirm_head, __ATOMIC_ACQUIRE); tail++) {
			struct uman_confirmation *one = &done[tail % UMAN_CONFIRM_ENTRIES];

			if (one->handed_ns < one->due_ns || one->done_ns < one->handed_ns)
				return fprintf(stderr, "a confirmation's times run backwards\n"), 1;
			if (count < sizeof(handed) / sizeof(*handed))
				handed[count++] = one->handed_ns - one->due_ns;
		}
		__atomic_store_n(&a.shared->confirm_tail, tail, __ATOMIC_RELEASE);
	}
	printf("state=%u sent=%llu failed=%llu skipped=%llu torn=%llu confirmed=%u\n", o->state, (unsigned long long)o->sent,
	       (unsigned long long)o->failed, (unsigned long long)o->skipped, (unsigned long long)o->torn, count);
	print_figures("handed", handed, count);
	return 0;
}

/* raw-cyclic INTERFACE PERIOD_NS CYCLES [SPIN_NS]: the same by a raw socket and an absolute sleep. */
static int raw_cyclic(char **argument)
{
	uint64_t period = atoll(argument[1]), cycles = atoll(argument[2]), start, spin = argument[3] ? atoll(argument[3]) : 0;
	int s = raw_socket(argument[0], 0, true);
	uint8_t frame[SIZE];

	realtime(50);
	start = (now_ns(CLOCK_MONOTONIC) / period + 20) * period;
	for (uint64_t i = 0; i < cycles; i++) {
		make_frame(frame, CYCLE, 1, i);
		sleep_until(CLOCK_MONOTONIC, start + i * period - spin);
		while (now_ns(CLOCK_MONOTONIC) < start + i * period)
			;
		send(s, frame, SIZE, 0);
	}
	return 0;
}

/* listen INTERFACE COUNT WAIT_MS [PERIOD_NS]: counts frames of a cycle, their contents and the deviation of their interval. */
static int listen_to(char **argument)
{
	unsigned int wanted = atoi(argument[1]), count = 0, torn = 0, repeated = 0;
	uint64_t period = argument[3] ? atoll(argument[3]) : 0, stamp, before = 0, first = 0;
	uint64_t *off = calloc(wanted + 1, sizeof(*off)), *phase = calloc(wanted + 1, sizeof(*phase));
	int s = raw_socket(argument[0], TYPE, false), length;
	int64_t number, last = -1;
	unsigned int offs = 0;
	uint8_t frame[2048];

	realtime(10);
	puts("listening");
	fflush(stdout);
	while (count < wanted && (length = receive(s, frame, &stamp, count ? atoi(argument[2]) : 20000))) {
		if (frame[14] != CYCLE)
			continue;
		number = number_of(frame, length);
		torn += number < 0;
		repeated += number == last;
		last = number;
		if (period && before) {
			int64_t d = (int64_t)(stamp - before) - (int64_t)period;

			/* Against the first frame's grid: a late frame counts once. The first ten warm the path. */
			if (count >= 10) {
				off[offs] = d < 0 ? -d : d;
				phase[offs++] = stamp - first - (uint64_t)count * period + (1ull << 40);
			}
		}
		before = stamp;
		if (!count)
			first = stamp;
		count++;
	}
	printf("received=%u torn=%u repeated=%u\n", count, torn, repeated);
	if (period) {
		uint64_t least = ~0ull;

		/* How far behind the earliest frame of the grid. */
		for (unsigned int i = 0; i < offs; i++)
			least = phase[i] < least ? phase[i] : least;
		for (unsigned int i = 0; i < offs; i++)
			phase[i] -= least;
		print_figures("interval_off", off, offs);
		print_figures("phase", phase, offs);
	}
	return 0;
}

/* soc INTERFACE COUNT WAIT_MS: counts POWERLINK's SoC, and those that came twice: with the relative time of the one before. */
static int soc(char **argument)
{
	unsigned int wanted = atoi(argument[1]), count = 0, repeated = 0;
	uint64_t stamp, relative, last = ~0ull;
	int s = raw_socket(argument[0], TYPE, false);
	uint8_t frame[2048];

	realtime(10);
	puts("listening");
	fflush(stdout);
	while (count < wanted && receive(s, frame, &stamp, atoi(argument[2]))) {
		if (frame[14] != CYCLE)
			continue;
		memcpy(&relative, frame + 28, sizeof(relative));
		repeated += relative == last;
		last = relative;
		count++;
	}
	printf("received=%u repeated=%u\n", count, repeated);
	return 0;
}

/* reply INTERFACE NODE LEASE RENEW_MS [changing]: answers questions to NODE until killed; RENEW_MS 0: never renewed. */
static int reply(char **argument)
{
	unsigned int node = atoi(argument[1]), pause = atoi(argument[3]);
	bool changing = argument[4];
	struct attachment a = attach(argument[0], 0, 1, 0, 0);
	struct uman_outgoing *o = (void *)(a.area + a.layout.reply_at);
	struct uman_reply r = { .lease_answers = atoi(argument[2]), .flags = UMAN_REPLY_TO_SOURCE | UMAN_REPLY_CONSUME,
				.filter = { .ethertype = htons(TYPE), .offset = 14, .value = { QUESTION, node },
					    .mask = { 0xff, 0xff } } };
	uint8_t frame[SIZE];

	make_frame(frame, ANSWER, node, 0);
	/* Every buffer has a content. */
	for (int i = 0; i < UMAN_BUFFERS; i++)
		publish(o, frame, SIZE);
	if (ioctl(a.file, UMAN_IOC_REPLY, &r))
		die("reply");
	puts("ready");
	fflush(stdout);
	for (uint32_t i = 1;; i++) {
		if (!pause)
			poll(NULL, 0, 100);
		else if (!changing)
			poll(NULL, 0, pause);
		if (pause)
			renew(o);
		if (changing) {
			make_frame(frame, ANSWER, node, i);
			publish_at_once(o, frame, SIZE);
			for (volatile int pause = 0; pause < 2000; pause++)
				;
		}
	}
	return 0;
}

/* raw-reply INTERFACE NODE: answers by a raw socket. */
static int raw_reply(char **argument)
{
	unsigned int node = atoi(argument[1]);
	int s = raw_socket(argument[0], TYPE, true), length;
	uint8_t question[2048], frame[SIZE];
	uint64_t stamp;

	make_frame(frame, ANSWER, node, 0);
	realtime(50);
	puts("ready");
	fflush(stdout);
	for (;;) {
		length = receive(s, question, &stamp, -1);
		if (length < 16 || question[14] != QUESTION || question[15] != node)
			continue;
		memcpy(frame, question + 6, 6);
		send(s, frame, SIZE, 0);
	}
	return 0;
}

/* ask INTERFACE NODE COUNT INTERVAL_NS: questions; how soon they are answered, how many are not. */
static int ask(char **argument)
{
	unsigned int node = atoi(argument[1]), count = atoi(argument[2]), answered = 0, torn = 0, foreign = 0;
	uint64_t interval = atoll(argument[3]), stamp, sent, at, *took = calloc(count + 1, sizeof(*took));
	int s = raw_socket(argument[0], TYPE, true), length;
	uint8_t frame[2048];

	realtime(40);
	at = now_ns(CLOCK_MONOTONIC) + 20000000;
	for (unsigned int i = 0; i < count; i++, at += interval) {
		make_frame(frame, QUESTION, node, i);
		sleep_until(CLOCK_MONOTONIC, at);
		sent = now_ns(CLOCK_REALTIME);
		if (send(s, frame, SIZE, 0) < 0)
			continue;
		while ((length = receive(s, frame, &stamp, 200))) {
			if (frame[14] != ANSWER)
				continue;
			if (frame[15] != node)
				foreign++;
			torn += number_of(frame, length) < 0;
			took[answered++] = stamp - sent;
			break;
		}
	}
	printf("asked=%u answered=%u torn=%u foreign=%u\n", count, answered, torn, foreign);
	/* The first ten warm the path. */
	if (answered > 10)
		print_figures("reply", took + 10, answered - 10);
	return 0;
}

/* take INTERFACE COUNT WAIT_MS: frames by the ring and the newest-value slot; says whether the two and their contents agree. */
static int take(char **argument)
{
	unsigned int wanted = atoi(argument[1]), count = 0, torn = 0, gaps = 0;
	struct attachment a = attach(argument[0], 0, 0, 1, 256);
	struct uman_received *ring = (void *)(a.area + a.layout.ring_at);
	struct uman_newest *n = (void *)(a.area + a.layout.newest_at);
	struct uman_receive r = { .kind = UMAN_KIND_RING, .flags = UMAN_RECEIVE_CONSUME };
	int64_t last = -1, number;
	uint32_t tail = 0;

	if (ioctl(a.file, UMAN_IOC_RECEIVE, &r))
		die("ring");
	r.kind = UMAN_KIND_NEWEST;
	r.flags = 0;
	r.filter.ethertype = htons(TYPE);
	if (ioctl(a.file, UMAN_IOC_RECEIVE, &r))
		die("newest");
	puts("ready");
	fflush(stdout);
	while (count < wanted) {
		struct pollfd p = { .fd = a.file, .events = POLLIN };

		if (poll(&p, 1, atoi(argument[2])) <= 0 || p.revents & POLLHUP)
			break;
		for (; tail != __atomic_load_n(&a.shared->ring_head, __ATOMIC_ACQUIRE); tail++, count++) {
			struct uman_received *one = &ring[tail % a.layout.ring];

			number = number_of(one->data, one->length);
			torn += number < 0;
			gaps += last >= 0 && number != last + 1;
			last = number;
		}
		__atomic_store_n(&a.shared->ring_tail, tail, __ATOMIC_RELEASE);
	}
	number = number_of(n->buffer[n->generation % UMAN_BUFFERS].data, SIZE);
	printf("taken=%u torn=%u gaps=%u lost=%llu newest=%lld last=%lld generation=%u\n", count, torn, gaps,
	       (unsigned long long)a.shared->ring_lost, (long long)number, (long long)last, n->generation);
	return 0;
}

/* send INTERFACE COUNT [MIN MAX]: frames by a raw socket, as fast as they go, or of each length from MIN to MAX. */
static int send_many(char **argument)
{
	int s = raw_socket(argument[0], 0, false), failed = 0;
	unsigned int count = atoi(argument[1]);
	unsigned int least = argument[2] ? atoi(argument[2]) : SIZE, most = argument[2] ? atoi(argument[3]) : SIZE;
	static uint8_t frame[4096];

	for (unsigned int i = 0; i < count; i++) {
		make_frame(frame, CYCLE, 1, i);
		if (send(s, frame, least + i % (most - least + 1), 0) < 0)
			failed++;
		if (!argument[2] && i % 50 == 49)
			usleep(2000);
	}
	printf("sent=%u failed=%d\n", count - failed, failed);
	return 0;
}

/* write INTERFACE COUNT: frames by write() on the device file. */
static int write_many(char **argument)
{
	struct attachment a = attach(argument[0], 0, 0, 0, 0);
	unsigned int count = atoi(argument[1]), failed = 0;
	uint8_t frame[SIZE];

	for (unsigned int i = 0; i < count; i++) {
		make_frame(frame, CYCLE, 1, i);
		if (write(a.file, frame, SIZE) != SIZE)
			failed++;
		if (i % 50 == 49)
			usleep(2000);
	}
	printf("sent=%u failed=%u\n", count - failed, failed);
	return 0;
}

static uint64_t random_state;

static uint64_t random_64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* hostile INTERFACE COUNT SEED: random requests, half of them near right ones, and random words in the shared memory. */
static int hostile(char **argument)
{
	static const unsigned int commands[] = { UMAN_IOC_ATTACH, UMAN_IOC_CYCLIC, UMAN_IOC_REPLY, UMAN_IOC_RECEIVE, UMAN_IOC_STOP };
	struct attachment a = attach(argument[0], 4, 8, 4, 64);
	unsigned int count = atoi(argument[1]), accepted = 0;
	uint64_t words = a.layout.size / 8;

	random_state = strtoull(argument[2], NULL, 0) * 2 + 1;
	for (unsigned int i = 0; i < count; i++) {
		union {
			uint8_t bytes[256];
			struct uman_cyclic cyclic;
			struct uman_reply reply;
			struct uman_receive receive;
			struct uman_stop stop;
			uint64_t word[32];
		} request;
		unsigned int command = commands[random_64() % 5];
		int file = a.file, other = -1;

		for (int w = 0; w < 32; w++)
			request.word[w] = random_64();
		if (random_64() % 2) {
			/* Near right: fields of small values, so that some are accepted. */
			memset(&request, 0, sizeof(request));
			if (command == UMAN_IOC_CYCLIC) {
				request.cyclic.slot = random_64() % 5;
				request.cyclic.clock = random_64() % 12;
				request.cyclic.start_ns = random_64() >> (random_64() % 64);
				request.cyclic.period_ns = random_64() >> (30 + random_64() % 34);
				request.cyclic.lease_cycles = random_64() % 1000;
				request.cyclic.flags = random_64() % 2;
				request.cyclic.lead_ns = random_64() % 2 ? random_64() % 300000 : 0;
			} else if (command == UMAN_IOC_REPLY) {
				request.reply.slot = random_64() % 9;
				request.reply.lease_answers = random_64() % 1000;
				request.reply.flags = random_64() % 8;
				request.reply.filter.ethertype = htons(TYPE);
				request.reply.filter.offset = random_64() % 70;
				request.reply.filter.mask[random_64() % 8] = random_64();
			} else if (command == UMAN_IOC_RECEIVE) {
				request.receive.kind = 2 + random_64() % 2;
				request.receive.slot = random_64() % 5;
				request.receive.filter.ethertype = htons(TYPE);
				request.receive.filter.offset = random_64() % 70;
			} else {
				request.stop.kind = random_64() % 5;
				request.stop.slot = random_64() % 9;
			}
		}
		/* Now and then a command of another size, number or file, and an address that is none. */
		if (random_64() % 8 == 0)
			command ^= 1u << (random_64() % 32);
		if (random_64() % 16 == 0)
			file = other = open("/dev/uman", O_RDWR);
		accepted += !ioctl(file, command, random_64() % 16 ? (void *)&request : (void *)random_64());
		if (other >= 0) {
			mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, 0);
			close(other);
		}
		for (int w = 0; w < 4; w++)
			((volatile uint64_t *)a.area)[random_64() % words] = random_64() >> (random_64() % 64);
		if (random_64() % 4 == 0)
			(void)!write(a.file, a.area, random_64() % 2000);
		if (random_64() % 64 == 0)
			mmap(NULL, random_64() % (2 * a.layout.size), PROT_READ, MAP_SHARED, a.file, 4096 * (random_64() % 1000));
	}
	printf("requests=%u accepted=%u\n", count, accepted);
	return accepted < count / 50;
}

/* hold INTERFACE: attached with a cyclic frame and a reply until killed. */
static int hold(char **argument)
{
	struct attachment a = attach(argument[0], 1, 1, 1, 64);
	struct uman_outgoing *o = (void *)(a.area + a.layout.cyclic_at);
	struct uman_cyclic c = { .clock = CLOCK_TAI, .period_ns = 500000, .lease_cycles = 1000, .flags = UMAN_SEND_CONFIRM };
	uint8_t frame[SIZE];
	struct pollfd p = { .fd = a.file, .events = POLLIN };

	make_frame(frame, CYCLE, 1, 0);
	publish(o, frame, SIZE);
	if (ioctl(a.file, UMAN_IOC_CYCLIC, &c))
		die("cyclic frame");
	puts("ready");
	fflush(stdout);
	for (;;) {
		renew(o);
		__atomic_store_n(&a.shared->confirm_tail, a.shared->confirm_head, __ATOMIC_RELEASE);
		p.revents = 0;
		poll(&p, 1, 20);
		if (p.revents & POLLHUP) {
			/* A device that is gone: every request is refused, the memory stays. */
			if (ioctl(a.file, UMAN_IOC_CYCLIC, &c) != -1 || errno != ENODEV)
				return fprintf(stderr, "a request to a device that is gone\n"), 1;
			printf("gone state=%u\n", o->state);
			return o->state != UMAN_STATE_DEVICE_GONE;
		}
	}
}

static void wants(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(1);
}

static bool refused(int result, int reason) { return result == -1 && errno == reason; }

/* busy INTERFACE: what is in use is refused with EBUSY, and free again when it is stopped. */
static int busy(char **argument)
{
	struct attachment a = attach(argument[0], 3, 0, 0, 0);
	struct uman_attach again = { .version = UMAN_ABI_VERSION, .ifindex = index_of(argument[0]) };
	struct uman_cyclic c = { .clock = CLOCK_MONOTONIC, .period_ns = 1000000, .lease_cycles = 1000, .lead_ns = 200000 };
	struct uman_stop stop = { .kind = UMAN_KIND_CYCLIC };
	int other = open("/dev/uman", O_RDWR);

	wants(refused(ioctl(other, UMAN_IOC_ATTACH, &again), EBUSY), "a second program gets EBUSY");
	wants(refused(ioctl(a.file, UMAN_IOC_ATTACH, &again), EBUSY), "a second attachment of the same file gets EBUSY");
	wants(refused(ioctl(other, UMAN_IOC_CYCLIC, &c), ENOTCONN), "a file that is not attached gets ENOTCONN");
	for (c.slot = 0; c.slot < 2; c.slot++)
		wants(!ioctl(a.file, UMAN_IOC_CYCLIC, &c), "leads of 40 % are taken");
	wants(refused(ioctl(a.file, UMAN_IOC_CYCLIC, &c), EBUSY), "leads of 60 % get EBUSY");
	wants(!ioctl(a.file, UMAN_IOC_STOP, &stop), "a cyclic frame stops");
	wants(!ioctl(a.file, UMAN_IOC_CYCLIC, &c), "its lead is free again");
	/* A mapping holds the file. */
	munmap(a.area, a.layout.size);
	close(a.file);
	wants(!ioctl(other, UMAN_IOC_ATTACH, &again), "the device is free when its program closes");
	puts("busy=1");
	return 0;
}

static void set_clock(int64_t seconds)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += seconds;
	if (clock_settime(CLOCK_REALTIME, &t))
		die("set the clock");
}

/* Renews for so many ms; returns the frames that were sent meanwhile. */
static unsigned int sent_in(struct uman_outgoing *o, unsigned int ms)
{
	uint64_t before = o->sent;

	for (unsigned int i = 0; i < ms / 10; i++) {
		renew(o);
		usleep(10000);
	}
	return o->sent - before;
}

/* steps INTERFACE: a cyclic frame of a clock that is set by an hour, forward and back. */
static int steps(char **argument)
{
	struct attachment a = attach(argument[0], 1, 0, 0, 0);
	struct uman_outgoing *o = (void *)(a.area + a.layout.cyclic_at);
	struct uman_cyclic c = { .clock = CLOCK_REALTIME, .period_ns = 10000000, .lease_cycles = 200 };
	unsigned int sent, forward, back, anew;
	uint8_t frame[SIZE];

	make_frame(frame, CYCLE, 1, 0);
	publish(o, frame, SIZE);
	wants(!ioctl(a.file, UMAN_IOC_CYCLIC, &c), "a cyclic frame of CLOCK_REALTIME");
	sent = sent_in(o, 500);
	set_clock(3600);
	forward = sent_in(o, 500);
	printf("sent=%u forward=%u skipped=%llu state=%u ", sent, forward, (unsigned long long)o->skipped, o->state);
	fflush(stdout);
	set_clock(-3600);
	usleep(200000);
	back = sent_in(o, 500);
	wants(!ioctl(a.file, UMAN_IOC_CYCLIC, &c), "it is started anew");
	anew = sent_in(o, 500);
	printf("back=%u anew=%u\n", back, anew);
	return 0;
}

static struct attachment raced;
static atomic_bool over;

static void *maps(void *unused)
{
	(void)unused;
	while (!over) {
		uint8_t *area = mmap(NULL, raced.layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, raced.file, 0);

		if (area == MAP_FAILED)
			die("map");
		area[0] |= 0;
		munmap(area, raced.layout.size);
	}
	return NULL;
}

/* race INTERFACE MS: one thread maps the memory, the other's requests and frames lie in pages that must be fetched first. */
static int race(char **argument)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + atoll(argument[1]) * 1000000ull;
	unsigned int requests = 0;
	pthread_t other;

	raced = attach(argument[0], 1, 1, 0, 0);
	if (pthread_create(&other, NULL, maps, NULL))
		die("thread");
	for (; now_ns(CLOCK_MONOTONIC) < end; requests++) {
		int zero = open("/dev/zero", O_RDONLY);
		uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);

		close(zero);
		if (page == MAP_FAILED)
			die("map a page");
		/* Not touched before: the kernel's copy fetches it. */
		ioctl(raced.file, UMAN_IOC_STOP, page);
		munmap(page, 4096);
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED || write(raced.file, page, SIZE) != SIZE)
			die("write");
		munmap(page, 4096);
	}
	over = true;
	pthread_join(other, NULL);
	printf("requests=%u\n", requests);
	return 0;
}

int main(int count, char **argument)
{
	static const struct {
		const char *name;
		int (*run)(char **argument);
		int least;
	} verbs[] = {
		{ "cyclic", cyclic, 5 }, { "raw-cyclic", raw_cyclic, 3 }, { "listen", listen_to, 3 }, { "reply", reply, 4 },
		{ "raw-reply", raw_reply, 2 }, { "ask", ask, 4 }, { "take", take, 3 }, { "send", send_many, 2 },
		{ "write", write_many, 2 }, { "hostile", hostile, 3 }, { "hold", hold, 1 }, { "soc", soc, 3 },
		{ "busy", busy, 1 }, { "steps", steps, 1 }, { "race", race, 2 },
	};

	for (unsigned int i = 0; count > 1 && i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argument[1], verbs[i].name) && count >= verbs[i].least + 2)
			return verbs[i].run(argument + 2);
	fprintf(stderr, "uman-test VERB ARGUMENTS…; the source says which\n");
	return 2;
}
