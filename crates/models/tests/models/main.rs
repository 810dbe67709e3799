//! What crosses the rooms of the models. One program: each would read every model's parameters
//! anew, which takes longer to compile than all of this to run.

mod hetero_mirror;
mod parts;
mod trace_replay;
