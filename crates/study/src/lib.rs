//! Studies: one TOML per question. Parse, grid, precondition once and fork, run in parallel,
//! results, expectations.

mod advice;
mod amount;
mod answer;
mod axis_value;
mod block;
mod chance;
mod crash;
mod digest;
mod document;
mod drawing;
mod elevator;
mod elsewhere;
mod expect;
pub mod explain;
mod few;
mod figure;
mod files;
mod gone;
mod grid;
mod hashed;
pub mod host;
mod image;
mod job_names;
mod jobs;
mod kept;
pub mod library;
pub use library::CODE_VERSION;
mod load;
mod locate;
mod lock;
pub mod metrics;
mod observe;
mod options;
mod outline;
mod output;
mod overwrite;
mod own_command;
mod parquet;
mod part;
mod perfetto;
mod plan;
mod planned;
mod precondition;
mod prepared;
mod process;
pub mod program;
mod recorder;
mod records;
mod results;
mod run;
mod runner;
mod schema;
mod shared_drives;
mod shifted;
mod signals;
mod simulated;
pub mod spoken;
mod spool;
mod steady;
mod tables;
mod timeline;
mod trace_table;
mod travel;
mod travel_metrics;
mod travelled;
mod tree;
mod within;

pub use config::bounded::TEXT_BYTES_MAX;
pub use config::names::nearest;
pub use config::{Cause, Failure, FilePlace, Kind};

pub use amount::Amount;
pub use answer::Answer;
pub use axis_value::AxisValue;
pub use block::Block;
pub use crash::{Crash, Cuts};
pub use digest::of_reader as digest_of_reader;
pub use document::{
    AnswerMetric, Band, Claim, Expect, Fill, Header, Overwrite, Plot, Point, PreconditionStep,
    Report, RunSection, UntilSteady,
};
pub use drawing::{Dot, Drawing};
pub use elevator::BIOS_MAX;
pub use expect::{Judged, Standing, Verdict};
pub use figure::{Figure, Front};
pub use files::{read_bytes, read_text};
pub use grid::Part;
pub use host::{HostProfile, host};
pub use image::{Cache, Image, check_blobs, is_image, read_image, write_image};
pub use load::set_value;
pub use options::Options;
pub use overwrite::{
    beside, check_create, check_distinct, check_output, check_overwrite, check_replace, create,
    is_full, is_marked, replace, replace_as,
};
pub use part::{BuiltPart, build_part, build_part_behind, elevator_of, model_of, part_source};
pub use plan::PlannedStudy;
pub use planned::{DeviceSummary, PlannedRun, Setup};
pub use prepared::Gate;
pub use recorder::Progress;
pub use results::{Results, RunSummary};
pub use run::{Watch, measure, panic_text, run};
pub use runner::{Job, RunResult, Runner};
pub use schema::{part_schema, study_schema};
pub use signals::ending_signals;
pub use simulated::Simulated;
pub use spool::Spools;
pub use tables::Tables;
pub use trace_table::TraceTable;
pub use travel::{FileSystem, Scheduler, Travel, WriteCache, name_of};
pub use travel_metrics::BlockUse;
pub use travelled::Session;
