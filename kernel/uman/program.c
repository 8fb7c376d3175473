// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/uman: a program attaches itself to one device, maps the memory that both share, and sets up cyclic frames, replies and
 * receive slots there. All ends when it closes the file. Every word of the shared memory is the program's to spoil: the kernel keeps
 * its own state elsewhere, reads each word once and checks it.
 *
 * Locks: RTNL, then the program's mutex, then a cycle's mutex. mmap() takes the program's under mmap_lock: user memory, whose
 * fault takes that one, is never touched under any of them.
 */
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>

#include "uman.h"
#include "uman_kernel.h"

static struct workqueue_struct *releases;

static void uman_program_free(struct work_struct *work)
{
	struct uman_program *p = container_of(work, struct uman_program, release);
	u32 slot;

	for (slot = 0; slot < UMAN_REPLY_MAX; slot++)
		kfree(rcu_dereference_protected(p->answers[slot], 1));
	for (slot = 0; slot < UMAN_NEWEST_MAX; slot++)
		kfree(rcu_dereference_protected(p->newest[slot], 1));
	kfree(rcu_dereference_protected(p->ring, 1));
	kfree(p->cycles);
	vfree(p->area);
	kfree(p);
}

static void uman_program_release(struct kref *kref)
{
	struct uman_program *p = container_of(kref, struct uman_program, kref);

	/* The last one may be a buffer's destructor, where nothing may sleep. */
	queue_work(releases, &p->release);
}

void uman_program_put(struct uman_program *p)
{
	kref_put(&p->kref, uman_program_release);
}

/* Ends everything that the attached program has set up; under RTNL. */
void uman_program_detach(struct uman *u)
{
	struct uman_program *p = rtnl_dereference(u->program);
	u32 slot;

	if (!p)
		return;
	mutex_lock(&p->mutex);
	RCU_INIT_POINTER(u->program, NULL);
	for (slot = 0; slot < p->layout.cyclic; slot++)
		uman_cycle_stop(&p->cycles[slot], UMAN_STATE_DEVICE_GONE);
	if (p->thread)
		kthread_stop(p->thread);
	p->thread = NULL;
	synchronize_net();
	for (slot = 0; slot < p->layout.reply; slot++)
		WRITE_ONCE(p->answers_shared[slot].state, UMAN_STATE_DEVICE_GONE);
	for (slot = 0; slot < p->layout.newest; slot++)
		WRITE_ONCE(p->newest_shared[slot].state, UMAN_STATE_DEVICE_GONE);
	WRITE_ONCE(p->shared->state, UMAN_STATE_DEVICE_GONE);
	p->u = NULL;
	mutex_unlock(&p->mutex);
	wake_up_interruptible(&p->wait);
}

/* Places the parts of the shared memory; each begins on a cache line. */
static int uman_lay_out(struct uman_attach *a)
{
	u64 at = PAGE_SIZE;

	if (a->version != UMAN_ABI_VERSION)
		return -EPROTO;
	if (a->flags || a->reserved || a->cyclic > UMAN_CYCLIC_MAX || a->reply > UMAN_REPLY_MAX ||
	    a->newest > UMAN_NEWEST_MAX || a->ring > UMAN_RING_MAX || (a->ring & (a->ring - 1)))
		return -EINVAL;
	a->cyclic_at = at;
	at = ALIGN(at + a->cyclic * sizeof(struct uman_outgoing), 64);
	a->reply_at = at;
	at = ALIGN(at + a->reply * sizeof(struct uman_outgoing), 64);
	a->newest_at = at;
	at = ALIGN(at + a->newest * sizeof(struct uman_newest), 64);
	a->ring_at = at;
	at = ALIGN(at + a->ring * sizeof(struct uman_received), 64);
	a->confirm_at = at;
	at += UMAN_CONFIRM_ENTRIES * sizeof(struct uman_confirmation);
	a->size = PAGE_ALIGN(at);
	return 0;
}

static int uman_prepare(struct uman_program *p, const struct uman_attach *layout)
{
	u32 slot;

	p->area = vmalloc_user(layout->size);
	p->cycles = kcalloc(layout->cyclic ?: 1, sizeof(*p->cycles), GFP_KERNEL);
	if (!p->area || !p->cycles) {
		vfree(p->area);
		kfree(p->cycles);
		p->area = NULL;
		p->cycles = NULL;
		return -ENOMEM;
	}
	p->layout = *layout;
	p->shared = p->area;
	p->answers_shared = p->area + layout->reply_at;
	p->newest_shared = p->area + layout->newest_at;
	p->ring_shared = p->area + layout->ring_at;
	p->confirm_shared = p->area + layout->confirm_at;
	for (slot = 0; slot < layout->cyclic; slot++)
		uman_cycle_init(p, slot);
	p->shared->version = UMAN_ABI_VERSION;
	p->shared->state = UMAN_STATE_ON;
	return 0;
}

/* Attaches a program to a device; under RTNL and the program's mutex. */
static int uman_bind(struct uman_program *p, struct net_device *dev, const struct uman_attach *layout)
{
	struct uman *u = netdev_priv(dev);
	struct task_struct *thread;
	int err;

	if (rtnl_dereference(u->program))
		return -EBUSY;
	err = uman_prepare(p, layout);
	if (err)
		return err;
	if (layout->cyclic) {
		thread = kthread_create(uman_thread, p, "uman/%s", dev->name);
		err = PTR_ERR_OR_ZERO(thread);
		if (err) {
			vfree(p->area);
			kfree(p->cycles);
			p->area = NULL;
			p->cycles = NULL;
			return err;
		}
		sched_set_fifo(thread);
		p->thread = thread;
	}
	p->u = u;
	p->attached = true;
	if (p->thread)
		wake_up_process(p->thread);
	rcu_assign_pointer(u->program, p);
	return 0;
}

static long uman_attach(struct uman_program *p, void __user *argument)
{
	struct uman_attach layout;
	struct net_device *dev;
	int err;

	if (copy_from_user(&layout, argument, sizeof(layout)))
		return -EFAULT;
	err = uman_lay_out(&layout);
	if (err)
		return err;
	if (copy_to_user(argument, &layout, sizeof(layout)))
		return -EFAULT;

	rtnl_lock();
	mutex_lock(&p->mutex);
	err = -EBUSY;
	if (p->attached)
		goto out;
	err = -ENODEV;
	dev = __dev_get_by_index(current->nsproxy->net_ns, layout.ifindex);
	if (!dev || dev->netdev_ops != &uman_netdev_ops)
		goto out;
	err = -EPERM;
	if (!ns_capable(dev_net(dev)->user_ns, CAP_NET_RAW))
		goto out;
	err = uman_bind(p, dev, &layout);
out:
	mutex_unlock(&p->mutex);
	rtnl_unlock();
	return err;
}

static int uman_reply_set(struct uman_program *p, const struct uman_reply *request)
{
	struct uman_answer *a, *old;
	const u32 known = UMAN_SEND_CONFIRM | UMAN_REPLY_TO_SOURCE | UMAN_REPLY_CONSUME;

	if (request->slot >= p->layout.reply || request->flags & ~known || request->reserved ||
	    memchr_inv(request->reserved2, 0, sizeof(request->reserved2)) ||
	    !request->lease_answers || request->lease_answers > UMAN_LEASE_MAX ||
	    !uman_filter_valid(&request->filter, false))
		return -EINVAL;
	a = kzalloc(sizeof(*a), GFP_KERNEL);
	if (!a)
		return -ENOMEM;
	a->filter = request->filter;
	a->shared = &p->answers_shared[request->slot];
	a->slot = request->slot;
	a->flags = request->flags;
	a->lease = request->lease_answers;
	a->renewed = READ_ONCE(a->shared->renewed);
	atomic_set(&a->left, a->lease);
	old = rcu_dereference_protected(p->answers[request->slot], lockdep_is_held(&p->mutex));
	if (old) {
		/* The slot's counts go on. */
		atomic64_set(&a->sent, atomic64_read(&old->sent));
		atomic64_set(&a->failed, atomic64_read(&old->failed));
		atomic64_set(&a->torn, atomic64_read(&old->torn));
	}
	WRITE_ONCE(a->shared->lease_left, a->lease);
	WRITE_ONCE(a->shared->state, UMAN_STATE_ON);
	rcu_assign_pointer(p->answers[request->slot], a);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

static int uman_receive_set(struct uman_program *p, const struct uman_receive *request)
{
	bool ring = request->kind == UMAN_KIND_RING;
	struct uman_sink *sink, *old;

	if ((!ring && request->kind != UMAN_KIND_NEWEST) || request->flags & ~UMAN_RECEIVE_CONSUME ||
	    !uman_filter_valid(&request->filter, ring))
		return -EINVAL;
	if (ring ? request->slot || !p->layout.ring : request->slot >= p->layout.newest)
		return -EINVAL;
	sink = kzalloc(sizeof(*sink), GFP_KERNEL);
	if (!sink)
		return -ENOMEM;
	sink->filter = request->filter;
	sink->flags = request->flags;
	if (ring) {
		old = rcu_replace_pointer(p->ring, sink, lockdep_is_held(&p->mutex));
	} else {
		WRITE_ONCE(p->newest_shared[request->slot].state, UMAN_STATE_ON);
		old = rcu_replace_pointer(p->newest[request->slot], sink, lockdep_is_held(&p->mutex));
	}
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

/* Behind this no frame leaves and none arrives for the slot any more. */
static int uman_stop_slot(struct uman_program *p, const struct uman_stop *request)
{
	struct uman_answer *a = NULL;
	struct uman_sink *sink = NULL;
	u32 slot = request->slot;

	switch (request->kind) {
	case UMAN_KIND_CYCLIC:
		if (slot >= p->layout.cyclic)
			return -EINVAL;
		uman_cycle_stop(&p->cycles[slot], UMAN_STATE_OFF);
		return 0;
	case UMAN_KIND_REPLY:
		if (slot >= p->layout.reply)
			return -EINVAL;
		a = rcu_replace_pointer(p->answers[slot], NULL, lockdep_is_held(&p->mutex));
		break;
	case UMAN_KIND_NEWEST:
		if (slot >= p->layout.newest)
			return -EINVAL;
		sink = rcu_replace_pointer(p->newest[slot], NULL, lockdep_is_held(&p->mutex));
		break;
	case UMAN_KIND_RING:
		if (slot)
			return -EINVAL;
		sink = rcu_replace_pointer(p->ring, NULL, lockdep_is_held(&p->mutex));
		break;
	default:
		return -EINVAL;
	}
	synchronize_net();
	if (request->kind == UMAN_KIND_REPLY)
		WRITE_ONCE(p->answers_shared[slot].state, UMAN_STATE_OFF);
	if (request->kind == UMAN_KIND_NEWEST)
		WRITE_ONCE(p->newest_shared[slot].state, UMAN_STATE_OFF);
	kfree(a);
	kfree(sink);
	return 0;
}

static long uman_set_up(struct uman_program *p, unsigned int command, void __user *argument)
{
	union {
		struct uman_cyclic cyclic;
		struct uman_reply reply;
		struct uman_receive receive;
		struct uman_stop stop;
	} request;
	long err;

	if (_IOC_SIZE(command) > sizeof(request))
		return -ENOTTY;
	if (copy_from_user(&request, argument, _IOC_SIZE(command)))
		return -EFAULT;
	mutex_lock(&p->mutex);
	if (!p->attached)
		err = -ENOTCONN;
	else if (!p->u)
		err = -ENODEV;
	else if (command == UMAN_IOC_CYCLIC)
		err = uman_cycle_start(p, &request.cyclic);
	else if (command == UMAN_IOC_REPLY)
		err = uman_reply_set(p, &request.reply);
	else if (command == UMAN_IOC_RECEIVE)
		err = uman_receive_set(p, &request.receive);
	else
		err = uman_stop_slot(p, &request.stop);
	mutex_unlock(&p->mutex);
	return err;
}

static long uman_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct uman_program *p = file->private_data;

	switch (command) {
	case UMAN_IOC_ATTACH:
		return uman_attach(p, (void __user *)argument);
	case UMAN_IOC_CYCLIC:
	case UMAN_IOC_REPLY:
	case UMAN_IOC_RECEIVE:
	case UMAN_IOC_STOP:
		return uman_set_up(p, command, (void __user *)argument);
	default:
		return -ENOTTY;
	}
}

/* Sends one frame now, by the device's transmit mode. */
static ssize_t uman_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct uman_program *p = file->private_data;
	struct sk_buff *skb;
	ssize_t done = -ENODEV;
	unsigned int room;
	void *frame;

	if (length < UMAN_FRAME_MIN || length > UMAN_FRAME_MAX)
		return -EMSGSIZE;
	frame = memdup_user(from, length);
	if (IS_ERR(frame))
		return PTR_ERR(frame);
	mutex_lock(&p->mutex);
	if (!p->u)
		goto out;
	done = -ENOMEM;
	room = LL_RESERVED_SPACE(p->u->lower);
	skb = netdev_alloc_skb(p->u->lower, room + max_t(size_t, length, ETH_ZLEN) + p->u->lower->needed_tailroom);
	if (!skb)
		goto out;
	skb_reserve(skb, room);
	skb_put_data(skb, frame, length);
	if (length < ETH_ZLEN)
		skb_put_zero(skb, ETH_ZLEN - length);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	done = uman_send(p->u, skb, false) ?: (ssize_t)length;
out:
	mutex_unlock(&p->mutex);
	kfree(frame);
	return done;
}

static __poll_t uman_poll(struct file *file, poll_table *table)
{
	struct uman_program *p = file->private_data;
	__poll_t ready = 0;

	poll_wait(file, &p->wait, table);
	mutex_lock(&p->mutex);
	if (p->attached) {
		if (READ_ONCE(p->ring_head) != READ_ONCE(p->shared->ring_tail) ||
		    READ_ONCE(p->confirm_head) != READ_ONCE(p->shared->confirm_tail))
			ready |= EPOLLIN | EPOLLRDNORM;
		ready |= p->u ? EPOLLOUT | EPOLLWRNORM : EPOLLHUP;
	}
	mutex_unlock(&p->mutex);
	return ready;
}

static int uman_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct uman_program *p = file->private_data;
	int err = -ENOTCONN;

	mutex_lock(&p->mutex);
	if (p->attached)
		err = remap_vmalloc_range(vma, p->area, vma->vm_pgoff);
	mutex_unlock(&p->mutex);
	return err;
}

static struct uman_program *uman_program_new(void)
{
	struct uman_program *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	kref_init(&p->kref);
	INIT_WORK(&p->release, uman_program_free);
	mutex_init(&p->mutex);
	init_waitqueue_head(&p->wait);
	spin_lock_init(&p->newest_lock);
	spin_lock_init(&p->ring_lock);
	raw_spin_lock_init(&p->confirm_lock);
	return p;
}

static int uman_file_open(struct inode *inode, struct file *file)
{
	file->private_data = uman_program_new();
	return file->private_data ? nonseekable_open(inode, file) : -ENOMEM;
}

static void uman_program_end(struct uman_program *p)
{
	rtnl_lock();
	if (p->u)
		uman_program_detach(p->u);
	rtnl_unlock();
	uman_program_put(p);
}

static int uman_file_release(struct inode *inode, struct file *file)
{
	uman_program_end(file->private_data);
	return 0;
}

/* For modules (include/uman_kernel.h). */

struct uman_program *uman_kernel_attach(struct net_device *dev, struct uman_attach *layout)
{
	struct uman_program *p;
	int err;

	ASSERT_RTNL();
	if (dev->netdev_ops != &uman_netdev_ops)
		return ERR_PTR(-ENODEV);
	err = uman_lay_out(layout);
	if (err)
		return ERR_PTR(err);
	p = uman_program_new();
	if (!p)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&p->mutex);
	err = uman_bind(p, dev, layout);
	mutex_unlock(&p->mutex);
	if (err) {
		uman_program_put(p);
		return ERR_PTR(err);
	}
	return p;
}
EXPORT_SYMBOL_GPL(uman_kernel_attach);

void *uman_kernel_memory(const struct uman_program *p)
{
	return p->area;
}
EXPORT_SYMBOL_GPL(uman_kernel_memory);

int uman_kernel_reply(struct uman_program *p, const struct uman_reply *request)
{
	int err;

	mutex_lock(&p->mutex);
	err = p->u ? uman_reply_set(p, request) : -ENODEV;
	mutex_unlock(&p->mutex);
	return err;
}
EXPORT_SYMBOL_GPL(uman_kernel_reply);

int uman_kernel_stop(struct uman_program *p, const struct uman_stop *request)
{
	int err;

	mutex_lock(&p->mutex);
	err = p->u ? uman_stop_slot(p, request) : -ENODEV;
	mutex_unlock(&p->mutex);
	return err;
}
EXPORT_SYMBOL_GPL(uman_kernel_stop);

void uman_kernel_detach(struct uman_program *p)
{
	uman_program_end(p);
}
EXPORT_SYMBOL_GPL(uman_kernel_detach);

static const struct file_operations uman_fops = {
	.owner = THIS_MODULE,
	.open = uman_file_open,
	.release = uman_file_release,
	.unlocked_ioctl = uman_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.write = uman_write,
	.poll = uman_poll,
	.mmap = uman_mmap,
};

static struct miscdevice uman_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "uman",
	.fops = &uman_fops,
	.mode = 0600,
};

/* Newer kernels want to be told that a queue's work runs on the processor that queued it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define RELEASES_FLAGS WQ_PERCPU
#else
#define RELEASES_FLAGS 0
#endif

int uman_program_init(void)
{
	int err;

	releases = alloc_workqueue("uman", RELEASES_FLAGS, 0);
	if (!releases)
		return -ENOMEM;
	err = misc_register(&uman_misc);
	if (err)
		destroy_workqueue(releases);
	return err;
}

void uman_program_exit(void)
{
	misc_deregister(&uman_misc);
	uman_in_flight_wait();
	destroy_workqueue(releases);
}
