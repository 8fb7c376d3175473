//! The flow meters of a plan, printed for people.

use rtwire_plan::Plan;
use rtwire_plan::show::grouped;

use crate::columns;

/// Adds a table of the flow meters, if there are any.
pub(crate) fn table(text: &mut String, plan: &Plan) {
    if plan.meters.is_empty() {
        return;
    }
    let head = ["flow meter at", "from", "of", "longest frame", "CIR", "CBS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for meter in &plan.meters {
        rows.push(vec![
            meter.switch.clone(),
            meter.from.clone(),
            meter.flow.clone(),
            format!("{} B", grouped(meter.longest_frame_bytes)),
            format!("{} bit/s", grouped(meter.committed_rate_bps)),
            format!("{} B", grouped(meter.committed_burst_bytes)),
        ]);
    }
    text.push('\n');
    columns::table(text, 3, &rows);
    text.push_str(
        "with these meters each promise holds whatever other hosts at those switches send\n",
    );
}
