//! Receive work: its threads, cores and priority. Pure.

use super::choices::Choices;
use super::configuration::{Configuration, Lack, want};
use super::present::Present;
use crate::change::{Subject, Value};
use crate::napi::ReceiveThread;

pub(super) fn receive(all: &mut Configuration, present: &Present, choices: &Choices) {
    if let Some(cpu) = choices.irq_cpu {
        for irq in &present.interrupts {
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            want(all, Subject::Setting { path }, Value::Text(cpu.to_string()));
        }
    }
    let Some(priority) = choices.receive_priority else {
        return;
    };
    for (tid, name) in &present.interrupt_threads {
        let subject = Subject::Thread {
            tid: *tid,
            name: name.clone(),
        };
        want(all, subject, Value::Fifo(priority));
    }
    // A veth has no receive context until generic merging is on, which is among the settings before.
    let comes = present.kind.as_deref() == Some("veth");
    if present.receive_contexts == 0 && !comes {
        all.lacks.push(Lack {
            what: format!(
                "receive contexts (NAPI) of `{}` that a thread could serve",
                present.interface
            ),
            lost: "receive work at the priority of the streams".to_owned(),
            remedy: "Linux 6.8 or later, and a driver that uses NAPI; on PREEMPT_RT the interrupts' own threads do it"
                .to_owned(),
            instead: "the soft interrupt receives".to_owned(),
        });
        return;
    }
    let thread = ReceiveThread {
        fifo: priority,
        nice: 0,
        cpus: choices
            .irq_cpu
            .and_then(|cpu| usize::try_from(cpu).ok())
            .into_iter()
            .collect(),
    };
    let subject = Subject::Receive {
        interface: present.interface.clone(),
    };
    want(all, subject, Value::Threads(vec![thread]));
}
