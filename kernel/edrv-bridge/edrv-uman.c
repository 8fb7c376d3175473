// SPDX-License-Identifier: GPL-2.0
/*
 * An Ethernet driver for openPOWERLINK's kernel stack, upon a `uman` device: any Linux network driver below, no forked one.
 * README.md says how to add this file to a tree.
 *
 * What the stack takes for granted, and how it is kept:
 *
 * - A frame may be sent from any context, with the stack's lock held and interrupts off. Where the device's mode and the context allow
 *   it, the frame goes to the driver at once; else a thread of the highest priorities hands it over.
 * - The transmit handler is called behind every frame, and takes the stack's lock: always by the thread, never inside of a call.
 * - A transmit buffer may be written again when its handler was called: frames are copied, so no queued frame is changed.
 * - An automatic response ends by itself when the stack has not renewed it (edrv_updateTxBuffer) for `lease` answers.
 */
#include <common/oplkinc.h>
#include <kernel/edrv.h>

#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "uman_kernel.h"

#if (CONFIG_DLL_DEFERRED_RXFRAME_RELEASE_SYNC != FALSE) || (CONFIG_DLL_DEFERRED_RXFRAME_RELEASE_ASYNC != FALSE)
#error "Received frames are lent for the time of the handler only: set CONFIG_DLL_DEFERRED_RXFRAME_RELEASE_SYNC and _ASYNC to FALSE"
#endif

#define EDRV_ETHERTYPE 0x88ab	/* POWERLINK */
#define EDRV_FRAME_MAX ETH_FRAME_LEN
#define EDRV_JOBS 64
#define EDRV_FILTERS UMAN_REPLY_MAX
#define EDRV_FILTER_BYTES 22	/* destination, source, EtherType, and 8 more */

static char *interface = "uman0";
module_param(interface, charp, 0444);
MODULE_PARM_DESC(interface, "the uman device, where the stack names none");

static char *mode = "";
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "transmit mode of the device: qdisc, direct or netpoll; empty: as it is");

static bool ready_buffers = true;
module_param(ready_buffers, bool, 0444);
MODULE_PARM_DESC(ready_buffers, "each transmit buffer has a socket buffer made ahead of need; N: one is made when a frame is sent");

static unsigned int lease = 5;
module_param(lease, uint, 0444);
MODULE_PARM_DESC(lease, "automatic responses that leave without an update by the stack");

/* A frame for the thread, or only the news that one was sent (size 0). */
struct edrv_job {
	struct llist_node node;
	tEdrvTxBuffer *buffer;
	unsigned int size;
	u8 data[EDRV_FRAME_MAX];
};

/* Behind tEdrvTxBuffer.txBufferNumber. */
struct edrv_transmit {
	struct sk_buff *ready;
};

/* A filter as the stack set it, for the thread to carry out. */
struct edrv_wanted {
	struct uman_filter filter;
	tEdrvTxBuffer *response;	/* NULL: none */
	bool changed;
	bool set;		/* the device has it; the thread's */
};

static struct {
	struct mutex mutex;	/* init, exit, and the device that goes; inside of RTNL */
	bool open;
	struct net_device __rcu *dev;
	netdevice_tracker tracker;
	u8 address[ETH_ALEN];
	tEdrvRxHandler received;
	struct packet_type packets;
	struct uman_program *program;
	struct uman_outgoing *responses;
	struct task_struct *thread;

	struct llist_head jobs;
	DECLARE_BITMAP(jobs_busy, EDRV_JOBS);
	struct edrv_job *job;

	raw_spinlock_t lock;	/* of what follows */
	UINT filter_count;
	struct edrv_wanted filters[EDRV_FILTERS];
	bool filters_changed;

	atomic_t sent_here;
	atomic_t sent_by_thread;
	atomic_t failed;
	atomic_t taken;
} edrv = {
	.mutex = __MUTEX_INITIALIZER(edrv.mutex),
	.lock = __RAW_SPIN_LOCK_UNLOCKED(edrv.lock),
};

/* --- Transmission --- */

static struct sk_buff *edrv_skb(const struct net_device *dev, gfp_t gfp)
{
	unsigned int room = LL_RESERVED_SPACE(dev);
	struct sk_buff *skb = alloc_skb(room + EDRV_FRAME_MAX + dev->needed_tailroom, gfp);

	if (skb)
		skb_reserve(skb, room);
	return skb;
}

static int edrv_hand_over(struct net_device *dev, struct sk_buff *skb, const void *data, unsigned int size)
{
	skb_put_data(skb, data, size);
	if (size < ETH_ZLEN)
		skb_put_zero(skb, ETH_ZLEN - size);
	skb->dev = dev;
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	return uman_kernel_send(dev, skb);
}

static struct edrv_job *edrv_job_take(tEdrvTxBuffer *buffer, unsigned int size)
{
	unsigned int free;

	do {
		free = find_first_zero_bit(edrv.jobs_busy, EDRV_JOBS);
		if (free >= EDRV_JOBS)
			return NULL;
	} while (test_and_set_bit(free, edrv.jobs_busy));
	edrv.job[free].buffer = buffer;
	edrv.job[free].size = size;
	return &edrv.job[free];
}

static void edrv_job_put(struct edrv_job *job)
{
	llist_add(&job->node, &edrv.jobs);
	wake_up_process(edrv.thread);
}

/*
 * The stack sends with its lock held, and its handlers take that lock. On PREEMPT_RT the lock sleeps, and to send means to wait for the
 * soft interrupts of this processor, in which the receive handler may wait for the lock: a deadlock. So a frame leaves here only where
 * soft interrupts are off already, as in that handler; all others leave by the thread.
 */
static bool edrv_may_send_here(const struct net_device *dev)
{
	bool thread = !irqs_disabled() && !in_hardirq();

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return thread && in_softirq();
	return thread || uman_kernel_sends_anywhere(dev);
}

tOplkError edrv_sendTxBuffer(tEdrvTxBuffer *pBuffer_p)
{
	struct edrv_transmit *transmit = pBuffer_p->txBufferNumber.pArg;
	tOplkError error = kErrorOk;
	struct net_device *dev;
	struct edrv_job *job;
	struct sk_buff *skb;
	bool here;

	if (!transmit || !pBuffer_p->pBuffer)
		return kErrorEdrvBufNotExisting;
	if (pBuffer_p->txFrameSize < ETH_HLEN || pBuffer_p->txFrameSize > pBuffer_p->maxBufferSize)
		return kErrorEdrvInvalidParam;

	rcu_read_lock();
	dev = rcu_dereference(edrv.dev);
	if (!dev) {
		error = kErrorInvalidOperation;
		goto out;
	}
	here = edrv_may_send_here(dev);
	job = edrv_job_take(pBuffer_p, here ? 0 : pBuffer_p->txFrameSize);
	if (!job) {
		error = kErrorEdrvNoFreeTxDesc;
		goto out;
	}
	if (here) {
		skb = xchg(&transmit->ready, NULL) ?: edrv_skb(dev, GFP_ATOMIC);
		/* A frame that the driver drops is lost, as on the wire; its handler is called all the same, or the stack stops. */
		if (!skb || edrv_hand_over(dev, skb, pBuffer_p->pBuffer, pBuffer_p->txFrameSize))
			atomic_inc(&edrv.failed);
		else
			atomic_inc(&edrv.sent_here);
	} else {
		memcpy(job->data, pBuffer_p->pBuffer, pBuffer_p->txFrameSize);
	}
	edrv_job_put(job);
out:
	rcu_read_unlock();
	return error;
}

static void edrv_job_do(struct edrv_job *job)
{
	tEdrvTxBuffer *buffer = job->buffer;
	struct edrv_transmit *transmit = buffer->txBufferNumber.pArg;
	struct net_device *dev;
	struct sk_buff *skb;

	/* As in the soft interrupt of a card that has sent it. */
	local_bh_disable();
	rcu_read_lock();
	dev = rcu_dereference(edrv.dev);
	if (job->size) {
		skb = dev ? xchg(&transmit->ready, NULL) ?: edrv_skb(dev, GFP_ATOMIC) : NULL;
		if (!skb || edrv_hand_over(dev, skb, job->data, job->size))
			atomic_inc(&edrv.failed);
		else
			atomic_inc(&edrv.sent_by_thread);
	}
	if (ready_buffers && dev && !READ_ONCE(transmit->ready)) {
		skb = xchg(&transmit->ready, edrv_skb(dev, GFP_ATOMIC));
		kfree_skb(skb);
	}
	rcu_read_unlock();
	clear_bit_unlock(job - edrv.job, edrv.jobs_busy);
	if (buffer->pfnTxHandler)
		buffer->pfnTxHandler(buffer);
	local_bh_enable();
}

/* --- Automatic responses --- */

/* Replaces the response's content; what leaves is one whole content. Under the lock: one writer. */
static void edrv_publish(unsigned int slot, const tEdrvTxBuffer *buffer)
{
	struct uman_outgoing *to = &edrv.responses[slot];
	u32 generation = to->generation + 1;
	struct uman_buffer *next = &to->buffer[generation % UMAN_BUFFERS];

	next->length = buffer->txFrameSize;
	memcpy(next->data, buffer->pBuffer, buffer->txFrameSize);
	smp_store_release(&to->generation, generation);
	smp_mb();
	WRITE_ONCE(to->renewed, to->renewed + 1);
}

static bool edrv_has_frame(const tEdrvTxBuffer *buffer)
{
	return buffer->pBuffer && buffer->txFrameSize >= ETH_HLEN && buffer->txFrameSize <= buffer->maxBufferSize;
}

/* Carries out what edrv_changeRxFilter() has noted. */
static void edrv_filters_do(void)
{
	struct uman_stop stop = { .kind = UMAN_KIND_REPLY };
	struct uman_reply reply = { .lease_answers = lease };
	unsigned int slot;
	bool was, wanted;

	for (slot = 0; slot < EDRV_FILTERS; slot++) {
		struct edrv_wanted *w = &edrv.filters[slot];

		raw_spin_lock_irq(&edrv.lock);
		if (!w->changed) {
			raw_spin_unlock_irq(&edrv.lock);
			continue;
		}
		w->changed = false;
		wanted = w->response && edrv_has_frame(w->response);
		if (wanted)
			edrv_publish(slot, w->response);
		reply.filter = w->filter;
		raw_spin_unlock_irq(&edrv.lock);

		was = w->set;
		reply.slot = slot;
		stop.slot = slot;
		w->set = wanted && !uman_kernel_reply(edrv.program, &reply);
		if (wanted && !w->set)
			pr_warn("edrv-uman: the response of filter %u is refused\n", slot);
		if (was && !wanted)
			uman_kernel_stop(edrv.program, &stop);
	}
}

/* Returns false if uman has no filter like it: part of an address, no EtherType, or a source. */
static bool edrv_filter_of(const tEdrvFilter *from, struct uman_filter *to)
{
	const UINT8 *mask = from->aFilterMask, *value = from->aFilterValue;

	memset(to, 0, sizeof(*to));
	if (mask[12] != 0xff || mask[13] != 0xff || memchr_inv(mask + 6, 0, 6))
		return false;
	memcpy(&to->ethertype, value + 12, 2);
	if (!memchr_inv(mask, 0xff, 6)) {
		to->flags = UMAN_FILTER_DESTINATION;
		memcpy(to->destination, value, 6);
	} else if (memchr_inv(mask, 0, 6)) {
		return false;
	}
	to->offset = ETH_HLEN;
	memcpy(to->value, value + ETH_HLEN, 8);
	memcpy(to->mask, mask + ETH_HLEN, 8);
	return true;
}

/* Filters without a response change nothing here: the stack's own handler sees every frame of POWERLINK. */
tOplkError edrv_changeRxFilter(tEdrvFilter *pFilter_p, UINT count_p, UINT entryChanged_p, UINT changeFlags_p)
{
	UINT first = entryChanged_p < count_p ? entryChanged_p : 0;
	UINT last = entryChanged_p < count_p ? entryChanged_p + 1 : count_p;
	tOplkError error = kErrorOk;
	unsigned long flags;
	UINT i;

	if (count_p > EDRV_FILTERS || (count_p && !pFilter_p))
		return kErrorEdrvInvalidParam;
	raw_spin_lock_irqsave(&edrv.lock, flags);
	if (!edrv.open) {
		error = kErrorInvalidOperation;
		goto out;
	}
	for (i = first; i < last; i++) {
		struct edrv_wanted *w = &edrv.filters[i];
		const tEdrvFilter *from = &pFilter_p[i];
		struct uman_filter filter;

		w->changed = true;
		w->response = NULL;
		if (!from->fEnable || !from->pTxBuffer)
			continue;
		if (!edrv_filter_of(from, &filter)) {
			error = kErrorEdrvInvalidParam;
			continue;
		}
		w->filter = filter;
		w->response = from->pTxBuffer;
	}
	for (i = count_p; i < edrv.filter_count; i++) {
		edrv.filters[i].response = NULL;
		edrv.filters[i].changed = true;
	}
	edrv.filter_count = count_p;
	WRITE_ONCE(edrv.filters_changed, true);
	wake_up_process(edrv.thread);
out:
	raw_spin_unlock_irqrestore(&edrv.lock, flags);
	return error;
}

#if (CONFIG_EDRV_AUTO_RESPONSE != FALSE)
/* The new content of a response, and the renewal of its lease. */
tOplkError edrv_updateTxBuffer(tEdrvTxBuffer *pBuffer_p)
{
	tOplkError error = kErrorEdrvBufNotExisting;
	unsigned long flags;
	UINT i;

	if (!edrv_has_frame(pBuffer_p))
		return kErrorEdrvInvalidParam;
	raw_spin_lock_irqsave(&edrv.lock, flags);
	for (i = 0; edrv.open && i < edrv.filter_count; i++) {
		if (edrv.filters[i].response != pBuffer_p)
			continue;
		edrv_publish(i, pBuffer_p);
		error = kErrorOk;
	}
	raw_spin_unlock_irqrestore(&edrv.lock, flags);
	return error;
}
#endif

/* --- The thread --- */

static int edrv_thread(void *unused)
{
	struct llist_node *list;
	struct edrv_job *job, *next;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (llist_empty(&edrv.jobs) && !READ_ONCE(edrv.filters_changed)) {
			if (kthread_should_stop())
				break;
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		list = llist_reverse_order(llist_del_all(&edrv.jobs));
		llist_for_each_entry_safe(job, next, list, node)
			edrv_job_do(job);
		if (xchg(&edrv.filters_changed, false))
			edrv_filters_do();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* --- Reception --- */

static int edrv_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *original)
{
	tEdrvRxBuffer buffer = { .bufferInFrame = kEdrvBufferLastInFrame };

	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	if (skb->pkt_type == PACKET_LOOPBACK || skb_linearize(skb)) {
		kfree_skb(skb);
		return NET_RX_DROP;
	}
	skb_push(skb, skb->data - skb_mac_header(skb));
	buffer.rxFrameSize = skb->len;
	buffer.pBuffer = skb->data;
	atomic_inc(&edrv.taken);
	edrv.received(&buffer);
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

/* --- Set-up --- */

static int edrv_mode(void)
{
	static const char *const names[] = { "qdisc", "direct", "netpoll" };

	return match_string(names, ARRAY_SIZE(names), mode);
}

/* Prepares the device; under RTNL. */
static int edrv_attach(struct net_device *dev, const UINT8 *address)
{
	struct uman_attach layout = { .version = UMAN_ABI_VERSION, .reply = EDRV_FILTERS };
	struct sockaddr_storage wanted = { .ss_family = dev->type };
	struct uman_program *program;
	int err = 0;

	if (*mode)
		err = uman_kernel_set_mode(dev, edrv_mode());
	if (!err && is_valid_ether_addr(address) && !ether_addr_equal(address, dev->dev_addr)) {
		memcpy(((struct sockaddr *)&wanted)->sa_data, address, ETH_ALEN);
		err = dev_set_mac_address(dev, (void *)&wanted, NULL);
	}
	if (!err)
		err = dev_open(dev, NULL);
	if (err)
		return err;
	layout.ifindex = dev->ifindex;
	program = uman_kernel_attach(dev, &layout);
	if (IS_ERR(program))
		return PTR_ERR(program);
	edrv.program = program;
	edrv.responses = uman_kernel_memory(program) + layout.reply_at;
	ether_addr_copy(edrv.address, dev->dev_addr);
	return 0;
}

/* No frame is sent or received behind this. */
static void edrv_let_go(void)
{
	struct net_device *dev = rcu_dereference_protected(edrv.dev, lockdep_is_held(&edrv.mutex));

	if (!dev)
		return;
	dev_remove_pack(&edrv.packets);
	RCU_INIT_POINTER(edrv.dev, NULL);
	synchronize_net();
	netdev_put(dev, &edrv.tracker);
}

static int edrv_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);

	/* The event also comes when a device is moved, and for every device when the notifier is unregistered. */
	if (event != NETDEV_UNREGISTER || dev->reg_state != NETREG_UNREGISTERING)
		return NOTIFY_DONE;
	mutex_lock(&edrv.mutex);
	if (rcu_access_pointer(edrv.dev) == dev) {
		pr_warn("edrv-uman: the device is removed; frames are refused from now on\n");
		edrv_let_go();
	}
	mutex_unlock(&edrv.mutex);
	return NOTIFY_DONE;
}

static struct notifier_block edrv_notifier = { .notifier_call = edrv_event };

/* Under RTNL and the mutex. */
static tOplkError edrv_open(const tEdrvInitParam *pEdrvInitParam_p)
{
	const char *name = pEdrvInitParam_p->pDevName ?: interface;
	struct net_device *dev;
	int err;

	dev = __dev_get_by_name(current->nsproxy->net_ns, name);
	if (!dev) {
		pr_err("edrv-uman: there is no interface `%s` here: rtwire uman add %s --link INTERFACE\n", name, name);
		return kErrorEdrvInit;
	}
	/* It sleeps until the first frame. */
	edrv.thread = kthread_create(edrv_thread, NULL, "edrv/%s", name);
	if (IS_ERR(edrv.thread))
		return kErrorNoResource;
	err = edrv_attach(dev, pEdrvInitParam_p->aMacAddr);
	if (err) {
		pr_err("edrv-uman: `%s` cannot be used: error %d%s\n", name, err,
		       err == -ENODEV ? " (it is no uman device)" : err == -EBUSY ? " (a program has it)" : "");
		kthread_stop(edrv.thread);
		return kErrorEdrvInit;
	}
	netdev_hold(dev, &edrv.tracker, GFP_KERNEL);
	edrv.received = pEdrvInitParam_p->pfnRxHandler;
	sched_set_fifo(edrv.thread);
	wake_up_process(edrv.thread);
	rcu_assign_pointer(edrv.dev, dev);
	edrv.packets = (struct packet_type){ .type = htons(EDRV_ETHERTYPE), .dev = dev, .func = edrv_receive };
	dev_add_pack(&edrv.packets);
	edrv.open = true;
	return kErrorOk;
}

/* Behind this nothing is sent, and each frame that was taken before has been told as sent. */
static void edrv_close(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&edrv.lock, flags);
	edrv.open = false;
	memset(edrv.filters, 0, sizeof(edrv.filters));
	edrv.filter_count = 0;
	raw_spin_unlock_irqrestore(&edrv.lock, flags);
	mutex_lock(&edrv.mutex);
	edrv_let_go();
	kthread_stop(edrv.thread);
	mutex_unlock(&edrv.mutex);
	uman_kernel_detach(edrv.program);
	kfree(edrv.job);
	edrv.job = NULL;
}

tOplkError edrv_init(const tEdrvInitParam *pEdrvInitParam_p)
{
	tOplkError error = kErrorInvalidOperation;

	if (!pEdrvInitParam_p->pfnRxHandler)
		return kErrorEdrvInvalidParam;
	if ((*mode && edrv_mode() < 0) || !lease || lease > UMAN_LEASE_MAX) {
		pr_err("edrv-uman: mode is qdisc, direct or netpoll, not `%s`; lease is 1 to %u, not %u\n", mode, UMAN_LEASE_MAX, lease);
		return kErrorEdrvInvalidParam;
	}
	rtnl_lock();
	mutex_lock(&edrv.mutex);
	if (edrv.open)
		goto out;
	edrv.job = kcalloc(EDRV_JOBS, sizeof(*edrv.job), GFP_KERNEL);
	error = edrv.job ? edrv_open(pEdrvInitParam_p) : kErrorNoResource;
	if (error != kErrorOk) {
		kfree(edrv.job);
		edrv.job = NULL;
	}
out:
	mutex_unlock(&edrv.mutex);
	rtnl_unlock();
	if (error == kErrorOk && register_netdevice_notifier(&edrv_notifier)) {
		edrv_close();
		error = kErrorNoResource;
	}
	return error;
}

tOplkError edrv_exit(void)
{
	if (!edrv.open)
		return kErrorOk;
	unregister_netdevice_notifier(&edrv_notifier);
	edrv_close();
	return kErrorOk;
}

const UINT8 *edrv_getMacAddr(void)
{
	return edrv.address;
}

static tOplkError edrv_multicast(const UINT8 *address, int (*change)(struct net_device *dev, const unsigned char *address))
{
	struct net_device *dev;
	int err = -ENODEV;

	if (!is_multicast_ether_addr(address))
		return kErrorEdrvInvalidParam;
	mutex_lock(&edrv.mutex);
	dev = rcu_dereference_protected(edrv.dev, lockdep_is_held(&edrv.mutex));
	if (dev)
		err = change(dev, address);
	mutex_unlock(&edrv.mutex);
	return err ? kErrorEdrvInvalidParam : kErrorOk;
}

tOplkError edrv_setRxMulticastMacAddr(const UINT8 *pMacAddr_p)
{
	return edrv_multicast(pMacAddr_p, dev_mc_add);
}

tOplkError edrv_clearRxMulticastMacAddr(const UINT8 *pMacAddr_p)
{
	return edrv_multicast(pMacAddr_p, dev_mc_del);
}

tOplkError edrv_allocTxBuffer(tEdrvTxBuffer *pBuffer_p)
{
	struct edrv_transmit *transmit;

	if (pBuffer_p->maxBufferSize > EDRV_FRAME_MAX)
		return kErrorEdrvNoFreeBufEntry;
	transmit = kzalloc(sizeof(*transmit), GFP_KERNEL);
	pBuffer_p->pBuffer = kzalloc(EDRV_FRAME_MAX, GFP_KERNEL);
	if (!transmit || !pBuffer_p->pBuffer) {
		kfree(transmit);
		kfree(pBuffer_p->pBuffer);
		pBuffer_p->pBuffer = NULL;
		return kErrorEdrvNoFreeBufEntry;
	}
	pBuffer_p->txBufferNumber.pArg = transmit;
	return kErrorOk;
}

/* The stack frees a buffer whose last frame was told as sent. */
tOplkError edrv_freeTxBuffer(tEdrvTxBuffer *pBuffer_p)
{
	struct edrv_transmit *transmit = pBuffer_p->txBufferNumber.pArg;
	unsigned long flags;
	UINT i;

	if (!transmit)
		return kErrorEdrvBufNotExisting;
	raw_spin_lock_irqsave(&edrv.lock, flags);
	for (i = 0; i < edrv.filter_count; i++) {
		if (edrv.filters[i].response == pBuffer_p) {
			edrv.filters[i].response = NULL;
			edrv.filters[i].changed = true;
			WRITE_ONCE(edrv.filters_changed, true);
			wake_up_process(edrv.thread);
		}
	}
	raw_spin_unlock_irqrestore(&edrv.lock, flags);
	pBuffer_p->txBufferNumber.pArg = NULL;
	kfree_skb(transmit->ready);
	kfree(transmit);
	kfree(pBuffer_p->pBuffer);
	pBuffer_p->pBuffer = NULL;
	return kErrorOk;
}

#if (CONFIG_EDRV_USE_DIAGNOSTICS != FALSE)
int edrv_getDiagnostics(char *pBuffer_p, size_t size_p)
{
	return scnprintf(pBuffer_p, size_p, "sent at once %d\nsent by the thread %d\nfailed %d\nreceived %d\n",
			 atomic_read(&edrv.sent_here), atomic_read(&edrv.sent_by_thread), atomic_read(&edrv.failed),
			 atomic_read(&edrv.taken));
}
#endif
