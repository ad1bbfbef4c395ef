//! The database functions for scripts. All values are bound parameters.

use super::context::Context;
use crate::limits;
use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, Position};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, Statement, ToSql, params_from_iter};
use std::sync::Arc;

type Outcome<T> = Result<T, Box<EvalAltResult>>;

/// Registers the query functions. `db_rows`, `db_row`, `db_column` and `db_value` read. `db_exec`
/// writes and returns the number of changed rows; `db_insert` writes and returns the new key.
/// `db_begin` and `db_commit` control transactions.
pub(crate) fn register(engine: &mut Engine, context: &Arc<Context>) {
    let with = |function: fn(&Context, &str, Array) -> Outcome<Dynamic>| {
        let context = Arc::clone(context);
        move |sql: &str, values: Array| function(&context, sql, values)
    };
    engine
        .register_fn("db_rows", with(rows))
        .register_fn("db_row", with(row))
        .register_fn("db_column", with(column))
        .register_fn("db_value", with(value))
        .register_fn("db_exec", with(execute))
        .register_fn("db_insert", with(insert));
    let begin = Arc::clone(context);
    engine.register_fn("db_begin", move || transaction(&begin, "BEGIN IMMEDIATE"));
    let commit = Arc::clone(context);
    engine.register_fn("db_commit", move || transaction(&commit, "COMMIT"));
}

/// All rows, each as a map from column to value.
fn rows(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    let read = read(context, sql, &values, limits::ROWS_MAX, |row| Ok(Dynamic::from(map(row)?)));
    read.map(Dynamic::from_array)
}

/// The first row as a map, or unit if there is none.
fn row(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    let rows = read(context, sql, &values, 1, |row| Ok(Dynamic::from(map(row)?)))?;
    Ok(rows.into_iter().next().unwrap_or(Dynamic::UNIT))
}

/// The first column of all rows.
fn column(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    let read = read(context, sql, &values, limits::ROWS_MAX, |row| Ok(from_sql(row.get_ref(0)?)));
    read.map(Dynamic::from_array)
}

/// The first column of the first row, or unit if there is none.
fn value(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    let values = read(context, sql, &values, 1, |row| Ok(from_sql(row.get_ref(0)?)))?;
    Ok(values.into_iter().next().unwrap_or(Dynamic::UNIT))
}

fn execute(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    write(context, sql, &values).map(|(changed, _)| (changed as i64).into())
}

fn insert(context: &Context, sql: &str, values: Array) -> Outcome<Dynamic> {
    write(context, sql, &values).map(|(_, key)| key.into())
}

fn read(
    context: &Context,
    sql: &str,
    values: &[Dynamic],
    rows_max: usize,
    mut convert: impl FnMut(&Row<'_>) -> rusqlite::Result<Dynamic>,
) -> Outcome<Array> {
    context.count_query(false);
    let connection = context.connection();
    let mut read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = Array::new();
        let mut rows = query(&mut statement, values)?;
        while found.len() < rows_max
            && let Some(row) = rows.next()?
        {
            found.push(convert(row)?);
        }
        Ok(found)
    };
    read().map_err(|error| failure(sql, &error))
}

fn write(context: &Context, sql: &str, values: &[Dynamic]) -> Outcome<(usize, i64)> {
    context.count_query(true);
    let connection = context.connection();
    let write = || {
        let mut statement = connection.prepare_cached(sql)?;
        let changed = statement.execute(params_from_iter(values.iter().map(Parameter)))?;
        Ok((changed, connection.last_insert_rowid()))
    };
    write().map_err(|error| failure(sql, &error))
}

fn transaction(context: &Context, sql: &str) -> Outcome<()> {
    context.connection().execute_batch(sql).map_err(|error| failure(sql, &error))
}

fn query<'s>(statement: &'s mut Statement<'_>, values: &[Dynamic]) -> rusqlite::Result<rusqlite::Rows<'s>> {
    statement.query(params_from_iter(values.iter().map(Parameter)))
}

fn map(row: &Row<'_>) -> rusqlite::Result<Map> {
    let statement = row.as_ref();
    (0..statement.column_count())
        .map(|index| Ok((statement.column_name(index)?.into(), from_sql(row.get_ref(index)?))))
        .collect()
}

fn from_sql(value: ValueRef<'_>) -> Dynamic {
    match value {
        ValueRef::Null => Dynamic::UNIT,
        ValueRef::Integer(number) => number.into(),
        // The schema has no fractions.
        ValueRef::Real(number) => Dynamic::from(number as i64),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).as_ref().into(),
    }
}

/// A script's value as a parameter of a statement.
struct Parameter<'a>(&'a Dynamic);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = self.0;
        if value.is_unit() {
            return Ok(ToSqlOutput::Owned(Value::Null));
        }
        if let Ok(number) = value.as_int() {
            return Ok(number.into());
        }
        if let Ok(truth) = value.as_bool() {
            return Ok(i64::from(truth).into());
        }
        match value.clone().into_immutable_string() {
            Ok(text) => Ok(ToSqlOutput::Owned(Value::Text(text.into_owned()))),
            Err(other) => Err(rusqlite::Error::ToSqlConversionFailure(
                format!("a value of type {other} is no parameter").into(),
            )),
        }
    }
}

fn failure(sql: &str, error: &rusqlite::Error) -> Box<EvalAltResult> {
    let text: ImmutableString = format!("{error} in {sql}").into();
    Box::new(EvalAltResult::ErrorRuntime(text.into(), Position::NONE))
}
