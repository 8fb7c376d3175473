/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the module share: a device, its counters, and the program that is attached to it. */
#ifndef UMAN_H
#define UMAN_H

#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netpoll.h>
#include <linux/version.h>
#include <linux/wait.h>

#include "uman_abi.h"

#define UMAN_COUNTERS(X)                                               \
	X(rx_taken) X(rx_passed) X(rx_dropped)                         \
	X(tx_qdisc) X(tx_direct) X(tx_netpoll) X(tx_failed)            \
	X(replies) X(replies_failed) X(replies_lease_ended)            \
	X(cyclic_sent) X(cyclic_failed) X(cyclic_skipped)              \
	X(cyclic_lease_ended)                                          \
	X(ring_stored) X(ring_lost) X(newest_stored)                   \
	X(confirmed) X(confirm_lost)

enum uman_counter {
#define X(name) UMAN_##name,
	UMAN_COUNTERS(X)
#undef X
	UMAN_COUNTER_COUNT
};

extern const char *const uman_counter_names[UMAN_COUNTER_COUNT];

struct uman_counters {
	unsigned long value[UMAN_COUNTER_COUNT];
};

struct uman_types {
	struct rcu_head rcu;
	unsigned int count;
	__be16 type[UMAN_ETHERTYPES];
};

struct uman_program;

/* A device of kind `uman`. What is marked __rcu is read by the paths of frames; RTNL protects all else. */
struct uman {
	struct net_device *dev;
	struct net_device *lower;
	netdevice_tracker lower_tracker;
	u8 mode;
	u16 queue;
	struct uman_types __rcu *types;
	struct netpoll __rcu *netpoll;
	struct uman_program __rcu *program;
	struct uman_counters __percpu *counters;
	struct list_head list;
};

static inline void uman_count(const struct uman *u, enum uman_counter which)
{
	this_cpu_inc(u->counters->value[which]);
}

/* device.c */
extern const struct net_device_ops uman_netdev_ops;
void uman_setup(struct net_device *dev);
unsigned long uman_counter(const struct uman *u, enum uman_counter which);
rx_handler_result_t uman_receive(struct sk_buff **pskb);
void uman_follow_lower(struct uman *u);
int uman_lower_address(struct uman *u);

/* main.c */
extern struct list_head uman_devices;	/* RTNL */
const char *uman_mode_name(u8 mode);

/* transmit.c */
int uman_set_mode(struct uman *u, u8 mode, struct netlink_ext_ack *extack);
int uman_send(struct uman *u, struct sk_buff *skb, bool in_receive);

/* program.c */
struct uman_record {
	struct uman_program *program;
	u32 kind;
	u32 slot;
	clockid_t clock;
	u64 due_ns;
	u64 handed_ns;
};

#define UMAN_RECORDS 64

/* A cyclic frame. The mutex protects all but what the timer uses. */
struct uman_cycle {
	struct mutex mutex;
	struct hrtimer timer;
	struct uman_program *program;
	struct uman_outgoing *shared;
	struct sk_buff *ready;	/* the next frame's buffer */
	u32 slot;
	u32 flags;
	u32 lease;
	u32 left;
	u32 renewed;
	clockid_t clock;
	ktime_t period;
	u32 lead_ns;
	bool running;
	atomic64_t due_ns;
	atomic_t skipped;
	u64 sent;
	u64 failed;
	u64 skips;
	u64 torn;
};

/* A prepared reply: replaced as a whole, freed behind a grace period. */
struct uman_answer {
	struct rcu_head rcu;
	struct uman_filter filter;
	struct uman_outgoing *shared;
	u32 slot;
	u32 flags;
	u32 lease;
	u32 renewed;
	u32 ended;	/* the lease has; the shared `state` is for the program */
	atomic_t left;
	atomic64_t sent;
	atomic64_t failed;
	atomic64_t torn;
};

/* Where received frames go: the ring or a newest-value slot. */
struct uman_sink {
	struct rcu_head rcu;
	struct uman_filter filter;
	u32 flags;
};

struct uman_program {
	struct kref kref;
	struct work_struct release;
	struct mutex mutex;
	struct uman *u;		/* NULL: not attached, or the device is gone */
	bool attached;
	wait_queue_head_t wait;
	struct task_struct *thread;
	unsigned long due;	/* cyclic frames whose timer has expired */

	void *area;
	struct uman_attach layout;
	struct uman_shared *shared;

	struct uman_cycle *cycles;
	struct uman_answer __rcu *answers[UMAN_REPLY_MAX];
	struct uman_outgoing *answers_shared;
	struct uman_sink __rcu *newest[UMAN_NEWEST_MAX];
	struct uman_newest *newest_shared;
	spinlock_t newest_lock;
	u32 newest_generation[UMAN_NEWEST_MAX];
	struct uman_sink __rcu *ring;
	struct uman_received *ring_shared;
	spinlock_t ring_lock;
	u32 ring_head;
	u64 ring_lost;

	struct uman_confirmation *confirm_shared;
	raw_spinlock_t confirm_lock;
	u32 confirm_head;
	u64 confirm_lost;
	DECLARE_BITMAP(records_busy, UMAN_RECORDS);
	struct uman_record records[UMAN_RECORDS];
};

int uman_program_init(void);
void uman_program_exit(void);
void uman_program_detach(struct uman *u);
void uman_program_put(struct uman_program *p);

/* outgoing.c */
struct sk_buff *uman_frame(struct uman *u, struct uman_outgoing *from, struct sk_buff *skb, u64 *torn);
void uman_confirm_begin(struct uman *u, struct uman_program *p, struct sk_buff *skb, u32 kind, u32 slot, clockid_t clock, u64 due_ns);
u64 uman_now(clockid_t clock);
int uman_thread(void *program);
int uman_cycle_start(struct uman_program *p, const struct uman_cyclic *request);
void uman_cycle_stop(struct uman_cycle *c, u32 state);
void uman_cycle_init(struct uman_program *p, u32 slot);
bool uman_answer_all(struct uman *u, struct uman_program *p, struct sk_buff *request, bool *answered);
void uman_in_flight_wait(void);

/* incoming.c */
bool uman_meets(const struct uman_filter *filter, const struct sk_buff *skb);
bool uman_filter_valid(const struct uman_filter *filter, bool any_type);
bool uman_program_receive(struct uman *u, struct uman_program *p, struct sk_buff *skb);

/* debug.c */
void uman_debug_init(void);
void uman_debug_exit(void);

#endif
