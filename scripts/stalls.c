// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A machine that stands still: takes all processors away at the same moments, as a hypervisor does that has given them to
 * somebody else.
 *
 * usage: stalls SEED
 * It ends with the program that started it.
 *
 * Nothing below SCHED_FIFO 99 runs for 2 to 15 ms, then everything runs for 2 to 9 ms, and so on, until SIGTERM. So six
 * tenths of the time are away, as was seen on shared machines after hours of load. Says `stalls` once it begins.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t begin_ns;
static unsigned int seed;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* A number of ns between two numbers of us, the same for each processor. */
static uint64_t between(unsigned int *state, unsigned int least_us, unsigned int most_us)
{
	return (least_us + (uint64_t)rand_r(state) % (most_us - least_us + 1)) * 1000;
}

static void *take_away(void *processor)
{
	unsigned int state = seed;
	uint64_t next_ns = begin_ns;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)(uintptr_t)processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one)) {
		perror("sched_setaffinity");
		exit(1);
	}
	for (;;) {
		struct timespec until;

		next_ns += between(&state, 2000, 15000);
		while (now() < next_ns)
			;
		next_ns += between(&state, 2000, 9000);
		until.tv_sec = (time_t)(next_ns / 1000000000);
		until.tv_nsec = (long)(next_ns % 1000000000);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return NULL;
}

int main(int count, char **words)
{
	struct sched_param highest = { .sched_priority = 99 };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (count != 2) {
		fprintf(stderr, "usage: stalls SEED\n");
		return 2;
	}
	seed = (unsigned int)strtoul(words[1], NULL, 10);
	/* Whoever started it may be killed: it must not go on alone. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &highest)) {
		perror("stalls");
		return 3;
	}
	begin_ns = now() + 100000000;
	for (long one = 0; one < processors; one++) {
		pthread_t thread;
		int fault = pthread_create(&thread, NULL, take_away, (void *)(uintptr_t)one);

		if (fault) {
			fprintf(stderr, "stalls: %s\n", strerror(fault));
			return 1;
		}
	}
	puts("stalls");
	fflush(stdout);
	for (;;)
		pause();
}
