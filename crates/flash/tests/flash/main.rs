//! Solid-state drives against what can be known without them: theory, DiskSim, MQSim, measured
//! drives, and the laws. One program, as each has to compile what drives a device anew.

mod closed;
mod closed_forms;
mod fidelity_mqsim;
mod golden_disksim;
mod offered_load;
mod ssd_laws;
mod support;
