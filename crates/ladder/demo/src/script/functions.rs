//! The functions for scripts other than those for the database: text, time, secrets, caches, and
//! the values of the request.

use super::context::{Context, PageCache};
use super::object;
use crate::cache::{self, Page, Scope, Stored};
use crate::{scripts, secret, text};
use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, Position};
use std::sync::Arc;
use std::time::Duration;

type Outcome<T> = Result<T, Box<EvalAltResult>>;

/// Registers all functions.
pub(crate) fn register(engine: &mut Engine, context: &Arc<Context>) {
    object::register(engine);
    register_text(engine);
    register_secrets(engine, context);
    register_request(engine, context);
    register_objects(engine, context);
    register_pages(engine, context);
}

fn register_text(engine: &mut Engine) {
    engine
        .register_fn("h", |text: &str| text::escape_html(text))
        .register_fn("h", |number: i64| number.to_string())
        .register_fn("h", |(): ()| String::new())
        .register_fn("url_encode", |text: &str| text::encode_url(text))
        .register_fn("strip_tags", |html: &str| text::strip_tags(html))
        .register_fn("slug", |text: &str| text::slug(text))
        .register_fn("words", |text: &str| -> Array { text::words(text).map(Dynamic::from).collect() })
        .register_fn("json_encode", |value: Dynamic| -> Outcome<String> {
            serde_json::to_string(&to_json(&value)).map_err(|error| failure(&error.to_string()))
        })
        .register_fn("json_decode", |text: &str| -> Outcome<Dynamic> {
            serde_json::from_str(text).map(from_json).map_err(|error| failure(&error.to_string()))
        })
        .register_fn("http_date", |seconds: i64| {
            let moment = clock::Timestamp::from_secs(u64::try_from(seconds).unwrap_or(0));
            httpdate::fmt_http_date(moment.to_system_time())
        })
        .register_fn("module_names", || -> Array { scripts::module_names().map(Dynamic::from).collect() });
}

fn register_secrets(engine: &mut Engine, context: &Arc<Context>) {
    let signer = Arc::clone(context);
    engine
        .register_fn("sign", move |text: &str| secret::sign(&signer.shared.secret, text))
        .register_fn("random_token", || secret::token().map_err(|error| failure(&error.to_string())))
        .register_fn("fingerprint", |text: &str| secret::fingerprint(text.as_bytes()))
        .register_fn("secret_equal", |left: &str, right: &str| secret::equal(left, right))
        .register_fn("password_matches", |password: &str, stored: &str| {
            secret::password_matches(password, stored)
        });
}

fn register_request(engine: &mut Engine, context: &Arc<Context>) {
    let getter = Arc::clone(context);
    engine.register_fn("state", move |name: &str| getter.globals.value(name));
    let setter = Arc::clone(context);
    engine.register_fn("set_state", move |name: &str, value: Dynamic| setter.globals.set(name, value));
    let clock = Arc::clone(context);
    engine.register_fn("now", move || clock.snapshot().now.as_secs() as i64);
    let timer = Arc::clone(context);
    engine.register_fn("elapsed_us", move || i64::try_from(timer.elapsed().as_micros()).unwrap_or(i64::MAX));
    let counter = Arc::clone(context);
    engine.register_fn("query_count", move || counter.snapshot().queries as i64);
    let switches = Arc::clone(context);
    engine.register_fn("switches", move || -> Map {
        let named = switches.snapshot().switches.named();
        named.into_iter().map(|(name, on)| (name.into(), on.into())).collect()
    });
    // Formats microseconds as milliseconds with one decimal. The scripts have no fractions, because
    // the language compiles in less time without them.
    engine.register_fn("fixed_ms", |micros: i64, width: i64| {
        let width = usize::try_from(width).unwrap_or(0).min(20);
        format!("{:width$.1}", micros as f64 / 1000.0)
    });
    engine.register_fn("fixed", |number: i64, width: i64| {
        format!("{number:width$}", width = usize::try_from(width).unwrap_or(0).min(20))
    });
}

fn register_objects(engine: &mut Engine, context: &Arc<Context>) {
    let getter = Arc::clone(context);
    engine.register_fn("memory_get", move |bin: &str, key: &str| memory_get(&getter, bin, key));
    let setter = Arc::clone(context);
    engine.register_fn(
        "memory_set",
        move |bin: &str, key: &str, value: Dynamic, tags: Array, lifetime: i64| {
            memory_set(&setter, (bin, key), &value, tags, lifetime);
        },
    );
    let clearer = Arc::clone(context);
    engine.register_fn("cache_invalidate", move |tags: Array| -> Outcome<()> {
        clearer.count_query(true);
        let scope = Scope::Tags(strings(tags));
        let invalidated = clearer.shared.caches.invalidate(&clearer.connection(), &scope);
        invalidated.map_err(|error| failure(&error.to_string()))
    });
    let cleaner = Arc::clone(context);
    engine.register_fn("cache_invalidate_all", move || -> Outcome<()> {
        cleaner.count_query(true);
        let invalidated = cleaner.shared.caches.invalidate(&cleaner.connection(), &Scope::All);
        invalidated.map_err(|error| failure(&error.to_string()))
    });
}

fn register_pages(engine: &mut Engine, context: &Arc<Context>) {
    let finder = Arc::clone(context);
    engine.register_fn("page_find", move |key: &str| page_find(&finder, key));
    let keeper = Arc::clone(context);
    engine.register_fn(
        "page_keep",
        move |key: &str, body: ImmutableString, headers: ImmutableString, tags: Array, lifetime: i64| {
            page_keep(&keeper, key, Page { body, headers }, &strings(tags), lifetime)
        },
    );
}

/// A value of the object cache. Unit if it is not cached or the cache is off.
fn memory_get(context: &Context, bin: &str, key: &str) -> Dynamic {
    let state = context.snapshot();
    if !state.switches.objects {
        return Dynamic::UNIT;
    }
    context.update(|state| state.objects_used = true);
    match context.shared.caches.object(bin, key, state.now) {
        Some(value) => {
            context.shared.counters.object_hits.add(1);
            value
        }
        None => {
            context.shared.counters.object_misses.add(1);
            Dynamic::UNIT
        }
    }
}

fn memory_set(context: &Context, name: (&str, &str), value: &Dynamic, tags: Array, lifetime: i64) {
    let state = context.snapshot();
    if !state.switches.objects {
        return;
    }
    let value = object::detached(value);
    let bytes = object::weight_bytes(&value);
    let expires = state.now.plus(seconds(lifetime));
    // If the value was overtaken by a change, the next request makes it again.
    context.shared.caches.store_object(state.generation, name, (value, bytes), strings(tags), expires);
}

/// A cached page as `#{ body, headers }`, or unit if it is not cached. Looks in memory if the
/// object cache is on, otherwise in the database.
fn page_find(context: &Context, key: &str) -> Outcome<Dynamic> {
    let state = context.snapshot();
    if !state.switches.page_cache {
        return Ok(Dynamic::UNIT);
    }
    let found = if state.switches.objects {
        context.update(|state| state.objects_used = true);
        context.shared.caches.page(key, state.now)
    } else {
        context.count_query(false);
        cache::row(&context.connection(), key, state.now).map_err(|error| failure(&error.to_string()))?
    };
    context.update(|state| state.page_cache = if found.is_some() { PageCache::Hit } else { PageCache::Miss });
    Ok(found.map_or(Dynamic::UNIT, |page| {
        let page: Map = [("body".into(), page.body.into()), ("headers".into(), page.headers.into())].into();
        page.into()
    }))
}

fn page_keep(context: &Context, key: &str, page: Page, tags: &[String], lifetime: i64) -> Outcome<()> {
    let state = context.snapshot();
    let caches = &context.shared.caches;
    let stored = if state.switches.objects {
        let expires = state.now.plus(seconds(lifetime));
        caches.store_page(state.generation, key, page, tags.to_vec(), expires)
    } else {
        context.count_query(true);
        let times = (state.now, seconds(lifetime));
        let stored = caches.store_row(&context.connection(), state.generation, key, &page, tags, times);
        stored.map_err(|error| failure(&error.to_string()))?
    };
    let counters = &context.shared.counters;
    match stored {
        Stored::Yes => counters.page_cache_stores.add(1),
        Stored::Overtaken => counters.page_cache_overtaken.add(1),
    }
    Ok(())
}

fn seconds(lifetime: i64) -> Duration {
    Duration::from_secs(u64::try_from(lifetime).unwrap_or(0))
}

fn strings(values: Array) -> Vec<String> {
    values.into_iter().filter_map(|value| value.into_string().ok()).collect()
}

fn to_json(value: &Dynamic) -> serde_json::Value {
    let value = object::detached(value);
    if let Some(map) = value.read_lock::<Map>() {
        return map.iter().map(|(key, value)| (key.to_string(), to_json(value))).collect();
    }
    if let Some(array) = value.read_lock::<Array>() {
        return array.iter().map(to_json).collect();
    }
    if let Some(text) = value.read_lock::<ImmutableString>() {
        return text.as_str().into();
    }
    if let Ok(number) = value.as_int() {
        return number.into();
    }
    value.as_bool().map_or(serde_json::Value::Null, Into::into)
}

fn from_json(value: serde_json::Value) -> Dynamic {
    match value {
        serde_json::Value::Null => Dynamic::UNIT,
        serde_json::Value::Bool(truth) => truth.into(),
        // Only `to_json` writes values, and the scripts have whole numbers only.
        serde_json::Value::Number(number) => number.as_i64().unwrap_or_default().into(),
        serde_json::Value::String(text) => text.into(),
        serde_json::Value::Array(values) => values.into_iter().map(from_json).collect::<Array>().into(),
        serde_json::Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key.into(), from_json(value))).collect::<Map>().into()
        }
    }
}

fn failure(text: &str) -> Box<EvalAltResult> {
    Box::new(EvalAltResult::ErrorRuntime(text.into(), Position::NONE))
}

#[cfg(test)]
mod tests {
    use super::{from_json, register_text, to_json};
    use rhai::Engine;

    #[test]
    fn json_round_trips_through_script_values() {
        let text = r#"{"a":[1,25,"x",true,null],"b":{}}"#;
        assert_eq!(to_json(&from_json(serde_json::from_str(text).unwrap())).to_string(), text);
    }

    #[test]
    fn everything_printed_through_h_is_escaped() {
        let mut engine = Engine::new();
        register_text(&mut engine);
        assert_eq!(engine.eval::<String>(r#"h("<b>") + h(1) + h(())"#).unwrap(), "&lt;b&gt;1");
    }
}
