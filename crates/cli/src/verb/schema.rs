//! `blocklab schema`: the JSON Schema of a study or a part, for editors.

use study::Failure;

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which document
    #[arg(value_enum, default_value = "study")]
    document: Document,
    /// The answer is JSON with or without this
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Document {
    Study,
    Part,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let schema = match self.document {
            Document::Study => study::study_schema(),
            Document::Part => study::part_schema(),
        };
        say(format_args!("{schema:#}"));
        Ok(0)
    }
}
