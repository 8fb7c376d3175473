// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stops a process again and again.
 *
 * usage: stop PID COUNT LENGTH_NS CYCLE_NS PHASE_NS
 *
 * Each stop begins at this phase of the cycle of CLOCK_TAI, and lasts for LENGTH_NS from when it is certain.
 * Prints a line for each stop, in ns of CLOCK_TAI: before SIGSTOP, the talker seen stopped, before SIGCONT, after it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_TAI, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* The field of rt_priority in /proc/PID/stat, counted from the state. */
#define RT_PRIORITY 37
/* This program's own priority: threads below it may have to wait until it sleeps. */
#define OWN_PRIORITY 55

/* Returns the real-time priority of a thread, from its state on in /proc/PID/stat. */
static long priority_of(const char *state)
{
	int field;

	for (field = 0; state && field < RT_PRIORITY; field++) {
		state = strchr(state, ' ');
		state = state ? state + 1 : NULL;
	}
	return state ? atol(state) : 0;
}

/* Returns 1 if every more urgent thread is stopped, 0 if not, -1 if the process is gone. */
static int stopped(const char *tasks)
{
	struct dirent *task;
	DIR *all = opendir(tasks);
	int result = 1;

	if (!all)
		return -1;
	while (result == 1 && (task = readdir(all))) {
		char path[384], line[512];
		char *state;
		FILE *file;

		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s/stat", tasks, task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		/* The state follows the name, which is in parentheses. */
		state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
		state = state ? state + 2 : NULL;
		if (!state || (*state != 'T' && priority_of(state) > OWN_PRIORITY))
			result = 0;
		fclose(file);
	}
	closedir(all);
	return result;
}

int main(int argc, char **argv)
{
	char tasks[64];
	uint64_t length, cycle, phase;
	pid_t pid;
	int count;

	if (argc != 6)
		return 2;
	pid = (pid_t)atol(argv[1]);
	count = atoi(argv[2]);
	length = strtoull(argv[3], NULL, 10);
	cycle = strtoull(argv[4], NULL, 10);
	phase = strtoull(argv[5], NULL, 10);
	if (!cycle)
		return 2;
	snprintf(tasks, sizeof(tasks), "/proc/%d/task", (int)pid);
	srandom((unsigned int)now());
	while (count-- > 0) {
		struct timespec pause = { 0, 15000000 + random() % 10000000 };
		const struct timespec moment = { 0, 10000 };
		uint64_t before, seen, ending;
		int state;

		nanosleep(&pause, NULL);
		for (before = now(); (before - phase) % cycle > 20000; before = now())
			;
		if (kill(pid, SIGSTOP))
			return 1;
		/* The thread that takes the signal may need this core. */
		while (!(state = stopped(tasks)))
			nanosleep(&moment, NULL);
		seen = now();
		while (now() < seen + length)
			;
		ending = now();
		if (kill(pid, SIGCONT) || state < 0)
			return 1;
		printf("%llu %llu %llu %llu\n", (unsigned long long)before,
		       (unsigned long long)seen, (unsigned long long)ending,
		       (unsigned long long)now());
	}
	return 0;
}
