//! `blocklab run`: answer a study's question.

use std::path::PathBuf;

use study::{Failure, Options, Plan, Results, Watch};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A study file, or the name of a shipped study (`blocklab list studies`)
    study: String,
    /// Change a key of the study, such as device.ssd.gc=greedy
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Runs at a time [default: one per core]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Where the results go [default: out/STUDY]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// One JSON object on stdout and nothing else
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let plan = Plan::read(&self.study, &self.sets)?;
        let watch = Watch::new(&plan);
        let options =
            Options { jobs: self.jobs, out: self.out.clone(), replay: self.replay() };
        let results = study::run(&plan, &options, &watch)?;
        if self.json {
            println!("{}", results.to_json());
        } else {
            print_answer(&results);
        }
        Ok(u8::from(!results.as_expected()))
    }

    /// The command line that gives the same result.
    fn replay(&self) -> String {
        let sets = self.sets.iter().map(|set| format!(" --set '{set}'"));
        format!("blocklab run {}{}", self.study, sets.collect::<String>())
    }
}

fn print_answer(results: &Results) {
    for run in &results.runs {
        let metric = |name: &str| run.metrics.get(name).copied().flatten().unwrap_or(f64::NAN);
        println!("{}: {:.0} iops, mean {:.1} us", run.label, metric("iops"), metric("latency_us_mean"));
    }
    println!("{}", results.directory.display());
}
