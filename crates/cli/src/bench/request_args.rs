//! The arguments that describe each request.
//!
//! Invariant: the content of a request comes from a single source, a file or a form.

use super::idle_flags::IdleFlag;
use crate::values::header;
use anyhow::Context as _;
use message::Method;
use record::{Plan, RequestBody};
use std::path::PathBuf;

/// What is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Add a header field, such as 'Accept-Language: en'; repeatable
    #[arg(short = 'H', long, value_name = "LINE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Add a cookie; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    cookie: Vec<String>,
    /// Credentials for basic authentication, sent with every request
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<String>,
    /// Request method [default: GET, or POST with content]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File with the content of every request
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    body: Option<PathBuf>,
    /// Add a field to the form that every request sends; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = field)]
    form: Vec<(String, String)>,
    /// Media type of the content [default: that of forms for --form, else application/octet-stream]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

impl RequestArgs {
    /// The flags that may have no effect in combination with the others.
    pub(super) fn idle(&self) -> [IdleFlag; 1] {
        [IdleFlag {
            flag: "--content-type",
            is_idle: self.content_type.is_some() && self.body.is_none() && self.form.is_empty(),
            fix: "it needs content; give --body or --form, or leave --content-type out",
        }]
    }

    /// Sets method, header fields and content in a plan.
    ///
    /// # Errors
    /// If the file with the content cannot be read.
    pub(super) fn shape(&self, plan: &mut Plan) -> anyhow::Result<()> {
        plan.headers.clone_from(&self.header);
        plan.cookies.clone_from(&self.cookie);
        plan.basic_auth.clone_from(&self.auth);
        let content = match &self.body {
            Some(path) => {
                let content =
                    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                Some((content, "application/octet-stream"))
            }
            None if self.form.is_empty() => None,
            None => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                let text = form.extend_pairs(&self.form).finish();
                Some((text.into_bytes(), "application/x-www-form-urlencoded"))
            }
        };
        if let Some((content, usual_type)) = content {
            let content_type = self.content_type.clone().unwrap_or_else(|| usual_type.to_owned());
            plan.body = Some(RequestBody { content: content.into(), content_type });
            plan.method = Method::Post;
        }
        if let Some(method) = &self.method {
            plan.method = Method::from_token(method.as_bytes());
        }
        Ok(())
    }
}

/// Splits a form field, `NAME=VALUE`, into name and value.
fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not a form field; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
