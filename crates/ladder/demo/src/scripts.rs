//! The site's program: installs its script files into the data directory, and reads and compiles
//! them, for every request or once.
//!
//! The files are run from the data directory and not from this binary. So reading them is the same
//! work as for any scripted site, and they can be inspected and tried out there. A change lasts
//! until the next start.

use crate::counters::Counters;
use rhai::{AST, Engine, ImmutableString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fs, io};

/// A script compiled into this binary.
struct Source {
    file: &'static str,
    text: &'static str,
}

macro_rules! sources {
    ($directory:literal: $($name:literal)*) => {
        &[$(Source {
            file: concat!($directory, "/", $name, ".rhai"),
            text: include_str!(concat!("../site/", $directory, "/", $name, ".rhai")),
        },)*]
    };
}

/// Scripts that run for every request, even if it is answered from the page cache.
const CORE: &[Source] = sources! { "core": "bootstrap" "cache" "session" "settings" "variable" };

/// Scripts that are loaded when a page must be looked up late or made.
const MODULES: &[Source] = sources! { "modules":
    "admin" "block" "comment" "contact" "delivery" "edit" "feed" "filter" "form" "journal" "locale"
    "log" "menu" "node" "page" "path" "product" "router" "search" "system" "taxonomy" "text" "theme"
    "user" "view"
};

/// Reasons why the scripts cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be compiled.
    #[error("{path}: {source}")]
    Syntax {
        /// The path of the file.
        path: PathBuf,
        /// The compiler's error, with line and column.
        source: Box<rhai::ParseError>,
    },
}

/// The scripts' directory, and their compiled form while the opcode cache is on.
#[derive(Debug)]
pub(crate) struct Scripts {
    directory: PathBuf,
    core: RwLock<Option<Arc<AST>>>,
    whole: RwLock<Option<Arc<AST>>>,
}

impl Scripts {
    /// Writes the files into `directory`. A file that was changed there is replaced.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn install(directory: PathBuf) -> Result<Self, ScriptError> {
        for source in CORE.iter().chain(MODULES) {
            let path = directory.join(source.file);
            if fs::read_to_string(&path).is_ok_and(|text| text == source.text) {
                continue;
            }
            let parent = path.parent().unwrap_or(&directory);
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, source.text))
                .map_err(|error| ScriptError::File { path, source: error })?;
        }
        Ok(Self { directory, core: RwLock::new(None), whole: RwLock::new(None) })
    }

    /// The core. It is read and compiled, unless `keep` is set and a compiled form is kept.
    ///
    /// # Errors
    /// The first file that cannot be read or compiled.
    pub(crate) fn core(
        &self,
        keep: bool,
        engine: &Engine,
        counters: &Counters,
    ) -> Result<Loaded, ScriptError> {
        kept_or(&self.core, keep, || self.compile_all(AST::empty(), CORE, engine, counters))
    }

    /// The whole program: the loaded `core` and all modules.
    ///
    /// # Errors
    /// The first file that cannot be read or compiled.
    pub(crate) fn whole(
        &self,
        core: &Loaded,
        keep: bool,
        engine: &Engine,
        counters: &Counters,
    ) -> Result<Loaded, ScriptError> {
        kept_or(&self.whole, keep, || self.compile_all(core.ast.as_ref().clone(), MODULES, engine, counters))
    }

    /// Drops the compiled form.
    pub(crate) fn forget(&self) {
        for kept in [&self.core, &self.whole] {
            *kept.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn compile_all(
        &self,
        mut ast: AST,
        sources: &[Source],
        engine: &Engine,
        counters: &Counters,
    ) -> Result<Loaded, ScriptError> {
        for source in sources {
            ast.combine(self.compile(source, engine)?);
        }
        let compiled = sources.len() as u64;
        counters.compiles.add(compiled);
        Ok(Loaded { ast: Arc::new(ast), compiled })
    }

    fn compile(&self, source: &Source, engine: &Engine) -> Result<AST, ScriptError> {
        let path = self.directory.join(source.file);
        let text = fs::read_to_string(&path)
            .map_err(|error| ScriptError::File { path: path.clone(), source: error })?;
        engine.compile(&text).map_err(|error| ScriptError::Syntax { path, source: Box::new(error) })
    }
}

/// A runnable part of the program.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its functions.
    pub(crate) ast: Arc<AST>,
    /// Number of files that were compiled for it.
    pub(crate) compiled: u64,
}

/// The kept form, or the result of `load`, which is kept if `keep` is set. If nothing is kept yet,
/// two workers may compile at the same time, like two processes of a scripted site.
fn kept_or(
    kept: &RwLock<Option<Arc<AST>>>,
    keep: bool,
    load: impl FnOnce() -> Result<Loaded, ScriptError>,
) -> Result<Loaded, ScriptError> {
    if keep && let Some(ast) = kept.read().unwrap_or_else(PoisonError::into_inner).clone() {
        return Ok(Loaded { ast, compiled: 0 });
    }
    let loaded = load()?;
    if keep {
        *kept.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&loaded.ast));
    }
    Ok(loaded)
}

/// The names of the modules, in the order of loading.
pub(crate) fn module_names() -> impl Iterator<Item = ImmutableString> {
    MODULES.iter().map(|source| stem(source.file).into())
}

/// The texts of all scripts, concatenated, for the fingerprint of this version of the site.
pub(crate) fn all_texts() -> String {
    CORE.iter().chain(MODULES).map(|source| source.text).collect()
}

fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(file)
}
