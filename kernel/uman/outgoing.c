// SPDX-License-Identifier: GPL-2.0
/*
 * Frames that a program has prepared: cyclic frames, automatic replies, and the confirmation that one has left.
 *
 * A cyclic frame's timer expires in hard interrupt context, where no transmit path may run on PREEMPT_RT. It only wakes the
 * attachment's thread (SCHED_FIFO), which sends.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/kthread.h>
#include <linux/pkt_sched.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "uman.h"

static atomic_t in_flight = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(none_in_flight);

/* Waits until no buffer refers to this module's code any more. */
void uman_in_flight_wait(void)
{
	/* The destructor may run where nothing may be woken: looked at again each tenth of a second. */
	while (!wait_event_timeout(none_in_flight, !atomic_read(&in_flight), HZ / 10))
		;
	synchronize_rcu();
	/* Until nobody is between the destructor's last instruction and its return. */
	synchronize_rcu_tasks();
}

u64 uman_now(clockid_t clock)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
		return ktime_get_ns();
	case CLOCK_REALTIME:
		return ktime_get_real_ns();
	default:
		return ktime_get_clocktai_ns();
	}
}

static struct sk_buff *uman_empty_frame(struct uman *u)
{
	unsigned int room = LL_RESERVED_SPACE(u->lower);
	struct sk_buff *skb;

	skb = netdev_alloc_skb(u->lower, room + UMAN_FRAME_MAX + u->lower->needed_tailroom);
	if (skb)
		skb_reserve(skb, room);
	return skb;
}

/*
 * Returns the content that the program has published last, never a mixture of two: `skb` filled, or a new buffer. Returns an error
 * pointer if there is no content of a permitted length, no memory, or a program that writes faster than can be copied; the buffer
 * is then freed.
 */
struct sk_buff *uman_frame(struct uman *u, struct uman_outgoing *from, struct sk_buff *skb, u64 *torn)
{
	const struct uman_buffer *buffer;
	u32 generation, length;
	int attempt;

	if (!skb)
		skb = uman_empty_frame(u);
	if (!skb)
		return ERR_PTR(-ENOMEM);
	for (attempt = 0; attempt < 4; attempt++) {
		generation = smp_load_acquire(&from->generation);
		buffer = &from->buffer[generation % UMAN_BUFFERS];
		length = READ_ONCE(buffer->length);
		if (length < UMAN_FRAME_MIN || length > UMAN_FRAME_MAX) {
			kfree_skb(skb);
			return ERR_PTR(-EINVAL);
		}
		memcpy(skb->data, buffer->data, length);
		smp_rmb();
		/* The program writes the buffer behind the published one: three publications later it is this one. */
		if (READ_ONCE(from->generation) - generation < UMAN_BUFFERS - 1)
			goto whole;
		(*torn)++;
	}
	kfree_skb(skb);
	return ERR_PTR(-EAGAIN);
whole:
	skb_put(skb, length);
	if (length < ETH_ZLEN)
		skb_put_zero(skb, ETH_ZLEN - length);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb->priority = TC_PRIO_CONTROL;
	return skb;
}

static void uman_confirm(struct uman_record *record)
{
	struct uman_program *p = record->program;
	struct uman_confirmation *to;
	unsigned long flags;
	u32 tail;

	raw_spin_lock_irqsave(&p->confirm_lock, flags);
	tail = READ_ONCE(p->shared->confirm_tail);
	if (p->confirm_head - tail >= UMAN_CONFIRM_ENTRIES) {
		WRITE_ONCE(p->shared->confirm_lost, ++p->confirm_lost);
	} else {
		to = &p->confirm_shared[p->confirm_head % UMAN_CONFIRM_ENTRIES];
		to->kind = record->kind;
		to->slot = record->slot;
		to->due_ns = record->due_ns;
		to->handed_ns = record->handed_ns;
		to->done_ns = uman_now(record->clock);
		smp_store_release(&p->shared->confirm_head, ++p->confirm_head);
	}
	raw_spin_unlock_irqrestore(&p->confirm_lock, flags);
}

/*
 * The buffer's destructor: any context, even with interrupts off. So it wakes nobody. A frame that a queue dropped comes here as one
 * that was sent does.
 */
static void uman_sent(struct sk_buff *skb)
{
	struct uman_record *record = skb_shinfo(skb)->destructor_arg;
	struct uman_program *p = record->program;

	uman_confirm(record);
	clear_bit_unlock(record - p->records, p->records_busy);
	uman_program_put(p);
	atomic_dec(&in_flight);
}

/* Has the buffer's end reported, if one of the records is free. */
void uman_confirm_begin(struct uman *u, struct uman_program *p, struct sk_buff *skb, u32 kind, u32 slot, clockid_t clock, u64 due_ns)
{
	struct uman_record *record;
	unsigned long irq;
	unsigned int i;

	for (i = 0; i < UMAN_RECORDS; i++)
		if (!test_and_set_bit_lock(i, p->records_busy))
			break;
	if (i == UMAN_RECORDS) {
		uman_count(u, UMAN_confirm_lost);
		raw_spin_lock_irqsave(&p->confirm_lock, irq);
		WRITE_ONCE(p->shared->confirm_lost, ++p->confirm_lost);
		raw_spin_unlock_irqrestore(&p->confirm_lock, irq);
		return;
	}
	record = &p->records[i];
	record->program = p;
	record->kind = kind;
	record->slot = slot;
	record->clock = clock;
	record->due_ns = due_ns;
	kref_get(&p->kref);
	atomic_inc(&in_flight);
	uman_count(u, UMAN_confirmed);
	skb_shinfo(skb)->destructor_arg = record;
	skb->destructor = uman_sent;
	record->handed_ns = uman_now(clock);
}

static enum hrtimer_restart uman_expired(struct hrtimer *timer)
{
	struct uman_cycle *c = container_of(timer, struct uman_cycle, timer);
	struct uman_program *p = c->program;
	u64 periods;

	if (!READ_ONCE(c->running))
		return HRTIMER_NORESTART;
	if (test_bit(c->slot, &p->due))
		atomic_inc(&c->skipped);	/* the thread has not come to the last one yet */
	atomic64_set(&c->due_ns, ktime_to_ns(hrtimer_get_expires(timer)) + c->lead_ns);
	set_bit(c->slot, &p->due);
	wake_up_process(p->thread);
	periods = hrtimer_forward_now(timer, c->period);
	/* A second and more on a clock that can be set: it was set forward. Nothing was missed, and a healthy lease goes on. */
	if (periods > 1 && (c->clock == CLOCK_MONOTONIC || (periods - 1) * ktime_to_ns(c->period) < NSEC_PER_SEC))
		atomic_add(min_t(u64, periods - 1, INT_MAX / 2), &c->skipped);
	return HRTIMER_RESTART;
}

void uman_cycle_init(struct uman_program *p, u32 slot)
{
	struct uman_cycle *c = &p->cycles[slot];

	mutex_init(&c->mutex);
	c->program = p;
	c->slot = slot;
	c->shared = p->area + p->layout.cyclic_at + slot * sizeof(struct uman_outgoing);
}

static void uman_timer_setup(struct hrtimer *timer, clockid_t clock)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, uman_expired, clock, HRTIMER_MODE_ABS_HARD);
#else
	hrtimer_init(timer, clock, HRTIMER_MODE_ABS_HARD);
	timer->function = uman_expired;
#endif
}

/* Under the cycle's mutex. */
static void uman_cycle_end(struct uman_cycle *c, u32 state)
{
	if (c->running) {
		WRITE_ONCE(c->running, false);
		hrtimer_cancel(&c->timer);
		clear_bit(c->slot, &c->program->due);
	}
	kfree_skb(c->ready);
	c->ready = NULL;
	WRITE_ONCE(c->shared->state, state);
}

void uman_cycle_stop(struct uman_cycle *c, u32 state)
{
	mutex_lock(&c->mutex);
	uman_cycle_end(c, state);
	mutex_unlock(&c->mutex);
}

/* Whether the thread would spin for more than half of its time, with a lead like that in the slot; under the program's mutex. */
static bool uman_spins_too_long(const struct uman_program *p, const struct uman_cyclic *request)
{
	u64 share = div64_u64((u64)request->lead_ns * USEC_PER_SEC, request->period_ns);
	const struct uman_cycle *c;
	u32 slot;

	for (slot = 0; slot < p->layout.cyclic; slot++) {
		c = &p->cycles[slot];
		/* One whose lease ends meanwhile may count. */
		if (slot != request->slot && READ_ONCE(c->running))
			share += div64_u64((u64)c->lead_ns * USEC_PER_SEC, ktime_to_ns(c->period));
	}
	return share > USEC_PER_SEC / 2;
}

/* Starts or changes a cyclic frame; the program's mutex is held, its device is there. */
int uman_cycle_start(struct uman_program *p, const struct uman_cyclic *request)
{
	struct uman_cycle *c;
	u64 now, start = request->start_ns;

	if (request->slot >= p->layout.cyclic || request->flags & ~UMAN_SEND_CONFIRM)
		return -EINVAL;
	if (request->clock != CLOCK_MONOTONIC && request->clock != CLOCK_REALTIME && request->clock != CLOCK_TAI)
		return -EINVAL;
	if (request->period_ns < UMAN_PERIOD_MIN_NS || request->period_ns > UMAN_PERIOD_MAX_NS)
		return -EINVAL;
	if (!request->lease_cycles || request->lease_cycles > UMAN_LEASE_MAX)
		return -EINVAL;
	if (start > KTIME_MAX / 2 || request->reserved)
		return -EINVAL;
	if (request->lead_ns > UMAN_LEAD_MAX_NS || request->lead_ns >= request->period_ns / 2)
		return -EINVAL;
	if (uman_spins_too_long(p, request))
		return -EBUSY;
	now = uman_now(request->clock) + request->lead_ns;
	if (start <= now)
		start += (div64_u64(now - start, request->period_ns) + 1) * request->period_ns;

	c = &p->cycles[request->slot];
	mutex_lock(&c->mutex);
	uman_cycle_end(c, UMAN_STATE_OFF);
	c->clock = request->clock;
	c->period = ns_to_ktime(request->period_ns);
	c->flags = request->flags;
	c->lease = request->lease_cycles;
	c->lead_ns = request->lead_ns;
	c->left = c->lease;
	c->renewed = READ_ONCE(c->shared->renewed);
	atomic_set(&c->skipped, 0);
	c->ready = uman_empty_frame(p->u);
	uman_timer_setup(&c->timer, c->clock);
	WRITE_ONCE(c->shared->lease_left, c->left);
	WRITE_ONCE(c->shared->state, UMAN_STATE_ON);
	WRITE_ONCE(c->running, true);
	hrtimer_start(&c->timer, ns_to_ktime(start - c->lead_ns), HRTIMER_MODE_ABS_HARD);
	mutex_unlock(&c->mutex);
	return 0;
}

static void uman_cycle_account(struct uman *u, struct uman_cycle *c, bool sent, u32 skipped)
{
	uman_count(u, sent ? UMAN_cyclic_sent : UMAN_cyclic_failed);
	if (sent)
		WRITE_ONCE(c->shared->sent, ++c->sent);
	else
		WRITE_ONCE(c->shared->failed, ++c->failed);
	if (skipped) {
		this_cpu_add(u->counters->value[UMAN_cyclic_skipped], skipped);
		c->skips += skipped;
		WRITE_ONCE(c->shared->skipped, c->skips);
	}
	WRITE_ONCE(c->shared->torn, c->torn);
}

/*
 * Spins until the frame's instant, at most for its lead. The clock may be set meanwhile: what is left is measured by the
 * monotonic one.
 */
static void uman_cycle_spin(const struct uman_cycle *c)
{
	u64 due = atomic64_read(&c->due_ns), now = uman_now(c->clock), end;

	if (now >= due || due - now > c->lead_ns)
		return;
	end = ktime_get_ns() + (due - now);
	while (ktime_get_ns() < end)
		cpu_relax();
}

static void uman_cycle_send(struct uman_program *p, struct uman_cycle *c)
{
	struct uman *u = p->u;
	struct sk_buff *skb;
	u32 renewed, skipped;
	bool sent = false;

	mutex_lock(&c->mutex);
	if (!c->running)
		goto out;
	skipped = atomic_xchg(&c->skipped, 0);
	renewed = READ_ONCE(c->shared->renewed);
	if (renewed != c->renewed) {
		c->renewed = renewed;
		c->left = c->lease;
	} else if (c->left <= skipped) {
		/* A frame that goes on for a program that hangs says what nobody means any more. */
		uman_count(u, UMAN_cyclic_lease_ended);
		uman_cycle_end(c, UMAN_STATE_LEASE_ENDED);
		wake_up_interruptible(&p->wait);
		goto out;
	}
	/* Cycles without a frame count, too. */
	c->left -= min(c->left, 1 + skipped);
	WRITE_ONCE(c->shared->lease_left, c->left);
	skb = uman_frame(u, c->shared, c->ready, &c->torn);
	c->ready = NULL;
	if (!IS_ERR(skb)) {
		if (c->lead_ns)
			uman_cycle_spin(c);
		if (c->flags & UMAN_SEND_CONFIRM)
			uman_confirm_begin(u, p, skb, UMAN_KIND_CYCLIC, c->slot, c->clock, atomic64_read(&c->due_ns));
		sent = !uman_send(u, skb, false);
	}
	uman_cycle_account(u, c, sent, skipped);
	if (c->flags & UMAN_SEND_CONFIRM && wq_has_sleeper(&p->wait))
		wake_up_interruptible(&p->wait);
	c->ready = uman_empty_frame(u);
out:
	mutex_unlock(&c->mutex);
}

/* The attachment's thread. Who wants another priority or processor sets them: `chrt`, `taskset`. */
int uman_thread(void *program)
{
	struct uman_program *p = program;
	u32 slot;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		if (!READ_ONCE(p->due))
			schedule();
		__set_current_state(TASK_RUNNING);
		for (slot = 0; slot < p->layout.cyclic; slot++)
			if (test_and_clear_bit(slot, &p->due))
				uman_cycle_send(p, &p->cycles[slot]);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static bool uman_answer_may(struct uman *u, struct uman_program *p, struct uman_answer *a)
{
	struct uman_outgoing *shared = a->shared;
	u32 renewed = READ_ONCE(shared->renewed);

	if (renewed != READ_ONCE(a->renewed)) {
		WRITE_ONCE(a->renewed, renewed);
		atomic_set(&a->left, a->lease);
		WRITE_ONCE(a->ended, 0);
		WRITE_ONCE(shared->state, UMAN_STATE_ON);
	}
	if (atomic_dec_if_positive(&a->left) < 0) {
		/* The first one to find it says so. */
		if (!xchg(&a->ended, 1)) {
			WRITE_ONCE(shared->state, UMAN_STATE_LEASE_ENDED);
			uman_count(u, UMAN_replies_lease_ended);
			wake_up_interruptible(&p->wait);
		}
		return false;
	}
	WRITE_ONCE(shared->lease_left, atomic_read(&a->left));
	return true;
}

static bool uman_answer_one(struct uman *u, struct uman_program *p, struct uman_answer *a, struct sk_buff *request)
{
	u64 torn = 0, arrived = a->flags & UMAN_SEND_CONFIRM ? uman_now(CLOCK_TAI) : 0;
	struct sk_buff *skb;
	bool sent = false;

	skb = uman_frame(u, a->shared, NULL, &torn);
	if (!IS_ERR(skb)) {
		if (a->flags & UMAN_REPLY_TO_SOURCE)
			ether_addr_copy(eth_hdr(skb)->h_dest, eth_hdr(request)->h_source);
		/* A tagged question gets a tagged answer. */
		if (skb_vlan_tag_present(request))
			__vlan_hwaccel_put_tag(skb, request->vlan_proto, skb_vlan_tag_get(request));
		if (a->flags & UMAN_SEND_CONFIRM)
			uman_confirm_begin(u, p, skb, UMAN_KIND_REPLY, a->slot, CLOCK_TAI, arrived);
		sent = !uman_send(u, skb, true);
	}
	if (sent) {
		uman_count(u, UMAN_replies);
		WRITE_ONCE(a->shared->sent, atomic64_inc_return(&a->sent));
	} else {
		uman_count(u, UMAN_replies_failed);
		WRITE_ONCE(a->shared->failed, atomic64_inc_return(&a->failed));
	}
	if (torn)
		WRITE_ONCE(a->shared->torn, atomic64_add_return(torn, &a->torn));
	return sent;
}

/* Answers a request by each prepared reply that it meets; `answered` says whether one left. Returns true if it goes no further. */
bool uman_answer_all(struct uman *u, struct uman_program *p, struct sk_buff *request, bool *answered)
{
	struct uman_answer *a;
	bool consumed = false;
	u32 slot;

	for (slot = 0; slot < p->layout.reply; slot++) {
		a = rcu_dereference(p->answers[slot]);
		if (!a || !uman_meets(&a->filter, request) || !uman_answer_may(u, p, a))
			continue;
		*answered |= uman_answer_one(u, p, a, request);
		consumed |= a->flags & UMAN_REPLY_CONSUME;
	}
	return consumed;
}
