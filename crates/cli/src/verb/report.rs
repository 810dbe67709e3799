//! `blocklab report`: one offline HTML file from the files of a run.

use std::path::PathBuf;
use std::process::Command;

use study::Failure;

use crate::python;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder a run wrote, such as out/first-look
    dir: PathBuf,
    /// Write only this figure, as SVG: percentiles, throughput, latency-heatmap, utilisation, waf,
    /// map, or one of the study's own
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Where to write; report.html, or the figure's name, in DIR by default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let result = self.dir.join("result.json");
        if !result.is_file() {
            return Err(Failure::input(format!("{} holds no run", self.dir.display()))
                .expected(format!("the file {}", result.display()))
                .help("blocklab run STUDY, which prints the folder it wrote"));
        }
        python::find().map_err(python::missing)?;
        let mut command = Command::new(python::interpreter());
        command.args(["-m", "blocklab.report"]).arg(&self.dir);
        if let Some(figure) = &self.figure {
            command.arg("--figure").arg(figure);
        }
        if let Some(out) = &self.out {
            command.arg("--out").arg(out);
        }
        if self.json {
            command.arg("--json");
        }
        let status = command.status().map_err(|why| {
            python::missing(format!("cannot run {}: {why}", python::interpreter().display()))
        })?;
        // The report's own exit codes are the house's; a killed process has none.
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
    }
}
