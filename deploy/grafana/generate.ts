// Writes the Grafana dashboard of Pawl to standard output, as JSON. The types are those of @grafana/schema.
import {
  BigValueColorMode,
  BigValueGraphMode,
  BigValueJustifyMode,
  BigValueTextMode,
  DashboardCursorSync,
  GraphDrawStyle,
  LegendDisplayMode,
  PercentChangeColorMode,
  SortOrder,
  StackingMode,
  ThresholdsMode,
  TooltipDisplayMode,
  VariableRefresh,
  VariableSort,
  VizOrientation,
  type Dashboard,
  type DataQuery,
  type GraphFieldConfig,
  type OptionsWithLegend,
  type OptionsWithTooltip,
  type Panel,
  type RowPanel,
  type SingleStatBaseOptions,
  type VariableModel,
} from '@grafana/schema';

/** A query of the Prometheus data source. */
interface Query extends DataQuery {
  expr: string;
  legendFormat: string;
  range: true;
}

interface StatOptions extends SingleStatBaseOptions {
  colorMode: BigValueColorMode;
  graphMode: BigValueGraphMode;
  justifyMode: BigValueJustifyMode;
  textMode: BigValueTextMode;
  percentChangeColorMode: PercentChangeColorMode;
  showPercentChange: boolean;
  wideLayout: boolean;
}

/** One panel: its title, its unit, and the expression of each legend. */
interface Spec {
  title: string;
  about: string;
  unit: string;
  queries: Record<string, string>;
  stacked?: boolean;
  max?: number;
  warnAt?: number; // of a stat: the value from which it is orange
}

const source = { type: 'prometheus', uid: '${datasource}' };
const both = 'namespace=~"$namespace", type=~"$type"';

// Every server reports the same gauges of the database: the highest is taken. Counters and
// histograms are of each server: they are added up.
const highest = (labels: string, metric: string) => `max by (${labels}) (${metric})`;
const rate = (labels: string, metric: string) => `sum by (${labels}) (rate(${metric}[$__rate_interval]))`;
const quantile = (q: number, metric: string, labels: string) =>
  `histogram_quantile(${q}, ${rate('le', `${metric}_bucket{${labels}}`)})`;
const quantiles = (metric: string, labels: string) => ({
  p50: quantile(0.5, metric, labels),
  p95: quantile(0.95, metric, labels),
  p99: quantile(0.99, metric, labels),
});
const items = (by: string, more: string) =>
  `sum by (${by}) (${highest('namespace, type, state', `pawl_items{${both}${more}}`)})`;
const failed = (by: string) =>
  `${rate(by, `pawl_events_total{${both}, event="failed"}`)} / ` +
  `(${rate(by, `pawl_events_total{${both}, event=~"failed|completed|submitted"}`)} > 0)`;

const now: Spec[] = [
  { title: 'Queued', about: 'Items that a worker could claim now.', unit: 'short',
    queries: { queued: `sum(${items('state', ', state="queued"')}) or vector(0)` } },
  { title: 'Leased', about: 'Items that workers hold.', unit: 'short',
    queries: { leased: `sum(${items('state', ', state="leased"')}) or vector(0)` } },
  { title: 'Oldest queued item', about: 'Since the item that has been queued longest was queued.', unit: 's', warnAt: 3600,
    queries: { oldest: `max(pawl_oldest_queued_seconds{${both}}) or vector(0)` } },
  { title: 'Expired, not swept', about: 'Leases that have run out and that no sweep has processed.', unit: 'short', warnAt: 1,
    queries: { expired: `sum(${items('state', ', state="expired"')}) or vector(0)` } },
];

const rows: Record<string, Spec[]> = {
  Overview: [
    { title: 'Throughput by event', about: 'Moves of tasks and items a second.', unit: 'ops', stacked: true,
      queries: { '{{event}}': rate('event', `pawl_events_total{${both}}`) } },
    { title: 'Failure rate by type', about: 'The share of the attempts that ended and failed.', unit: 'percentunit', max: 1,
      queries: { '{{type}}': failed('type') } },
    { title: 'Queue wait', about: 'How long claimed items were queued.', unit: 's',
      queries: quantiles('pawl_queue_wait_seconds', both) },
    { title: 'Claim', about: 'Time of claims that returned items, without the wait for work.', unit: 's',
      queries: quantiles('pawl_claim_seconds', both) },
    { title: 'Backlog by type and state', about: 'Items that have not ended.', unit: 'short', stacked: true,
      queries: { '{{type}} {{state}}': items('type, state', '') } },
    { title: 'Oldest item by type and state', about: 'Since the oldest item was created.', unit: 's',
      queries: { '{{type}} {{state}}': highest('type, state', `pawl_oldest_item_seconds{${both}}`) } },
    { title: 'Run time', about: 'Attempts that completed, submitted a result or failed.', unit: 's',
      queries: quantiles('pawl_run_seconds', both) },
    { title: 'From creation to the first claim', about: 'Of each item, once.', unit: 's',
      queries: quantiles('pawl_pickup_seconds', both) },
  ],
  Leases: [
    { title: 'Lease expirations', about: 'Leases that ran out: a worker has stalled or died.', unit: 'ops',
      queries: { '{{type}}': rate('type', `pawl_lease_expirations_total{${both}}`) } },
    { title: 'Lease age', about: 'How long leases lasted, whatever ended them.', unit: 's',
      queries: quantiles('pawl_lease_age_seconds', both) },
    { title: 'Workers by type', about: 'Seen in the last two minutes. *: they take any type.', unit: 'short',
      queries: { '{{namespace}} {{type}}': highest('namespace, type', `pawl_workers{namespace=~"$namespace", type=~"$type|[*]"}`) } },
    { title: 'Complete and heartbeat, p95', about: 'Time of calls, batches too.', unit: 's',
      queries: {
        complete: quantile(0.95, 'pawl_complete_seconds', 'namespace=~"$namespace"'),
        heartbeat: quantile(0.95, 'pawl_heartbeat_seconds', 'namespace=~"$namespace"'),
      } },
  ],
  Database: [
    { title: 'Calls of one group commit', about: 'The mean of the concurrent calls that one transaction carried out.', unit: 'short',
      queries: { '{{verb}}': `${rate('verb', 'pawl_group_commit_calls_sum')} / ${rate('verb', 'pawl_group_commit_calls_count')}` } },
    { title: 'Group commits', about: 'Transactions a second.', unit: 'ops',
      queries: { '{{verb}}': rate('verb', 'pawl_group_commit_calls_count') } },
    { title: 'Connections in use', about: 'The share of the connections that each pool of a server may have.', unit: 'percentunit', max: 1,
      queries: { '{{instance}} {{pool}}':
        'sum by (instance, pool) (pawl_pool_connections{state="in_use"}) / sum by (instance, pool) (pawl_pool_max_connections)' } },
    { title: 'Calls without an idle connection', about: 'They waited for one, or a new one was opened.', unit: 'ops',
      queries: { '{{pool}}': rate('pool', 'pawl_pool_waits_total') } },
    { title: 'Errors by code', about: 'What calls over HTTP were answered with.', unit: 'ops',
      queries: { '{{code}}': `${rate('code', 'pawl_errors_total')} > 0` } },
    { title: 'Refused calls', about: 'For want of a key, a role, a namespace or patience.', unit: 'ops',
      queries: { '{{route}} {{code}}': rate('route, code', 'pawl_refusals_total') } },
    { title: 'Requests over HTTP', about: 'By status.', unit: 'reqps', stacked: true,
      queries: { '{{status}}': rate('status', 'pawl_http_request_seconds_count') } },
    { title: 'Passes of the sweep', about: 'How long one takes on average.', unit: 's',
      queries: { seconds: 'sum(rate(pawl_sweep_seconds_sum[$__rate_interval])) / sum(rate(pawl_sweep_seconds_count[$__rate_interval]))' } },
    { title: 'What the sweep found', about: 'Items of lost workers, queued again or failed, and errors of its steps.', unit: 'ops',
      queries: {
        recovered: 'sum(rate(pawl_sweep_recovered_total[$__rate_interval]))',
        failed: 'sum(rate(pawl_sweep_failed_total[$__rate_interval]))',
        errors: 'sum(rate(pawl_sweep_errors_total[$__rate_interval]))',
      } },
    { title: 'Stalled messages', about: 'Open, without a chunk for a minute and without a live lease.', unit: 'short',
      queries: { messages: 'max(pawl_messages_stalled)' } },
    { title: 'Events without a position', about: 'Relays, counters and the transparency log wait for them.', unit: 'short',
      queries: { events: 'max(pawl_feed_lag_events)' } },
  ],
  'Relays and streams': [
    { title: 'Relay lag', about: 'Since the oldest event that the sink does not have.', unit: 's',
      queries: { '{{sink}}': highest('sink', 'pawl_relay_lag_seconds') } },
    { title: 'Events that the sink does not have', about: 'By sink.', unit: 'short',
      queries: { '{{sink}}': highest('sink', 'pawl_relay_lag_events') } },
    { title: 'Events sent', about: 'Confirmed by the sink in a second, repetitions too.', unit: 'ops',
      queries: { '{{sink}}': `clamp_min(deriv((${highest('sink', 'pawl_relay_sent')})[5m:]), 0)` } },
    { title: 'Events set aside', about: 'The sink refused them.', unit: 'short',
      queries: { '{{sink}}': highest('sink', 'pawl_relay_refused') } },
    { title: 'Relays that do not send', about: '1: the sink takes nothing, or the relay is disabled until it is resumed.', unit: 'short',
      queries: {
        '{{sink}} failing': highest('sink', 'pawl_relay_failing'),
        '{{sink}} disabled': highest('sink', 'pawl_relay_disabled'),
      } },
    { title: 'Open streams', about: "Streams of server-sent events that the servers' API is sending.", unit: 'short', stacked: true,
      queries: { '{{route}}': 'sum by (route) (pawl_streams_open)' } },
  ],
  Budgets: [
    { title: 'Spent or reserved', about: 'The share of the limit of the period.', unit: 'percentunit',
      queries: { '{{namespace}} {{budget}}':
        highest('namespace, budget',
          '(pawl_budget_spent{namespace=~"$namespace"} + pawl_budget_reserved{namespace=~"$namespace"})' +
          ' / pawl_budget_limit{namespace=~"$namespace"}') } },
    { title: 'Spent', about: "In the budget's own unit.", unit: 'short',
      queries: { '{{namespace}} {{budget}}': highest('namespace, budget', 'pawl_budget_spent{namespace=~"$namespace"}') } },
    { title: 'Reserved', about: "In the budget's own unit.", unit: 'short',
      queries: { '{{namespace}} {{budget}}': highest('namespace, budget', 'pawl_budget_reserved{namespace=~"$namespace"}') } },
  ],
};

let id = 0;
let y = 0;

/** What stats and time series share. */
const panel = (type: string, s: Spec, gridPos: { h: number; w: number; x: number }): Panel => ({
  id: ++id,
  type,
  title: s.title,
  description: s.about,
  datasource: source,
  gridPos: { ...gridPos, y },
  targets: Object.entries(s.queries).map(([legendFormat, expr], i) =>
    ({ refId: String.fromCharCode(65 + i), expr, legendFormat, range: true }) satisfies Query),
});

function stat(s: Spec, x: number): Panel {
  return {
    ...panel('stat', s, { h: 4, w: 6, x }),
    fieldConfig: {
      defaults: {
        unit: s.unit,
        thresholds: {
          mode: ThresholdsMode.Absolute,
          steps: [{ color: 'blue', value: null }, ...(s.warnAt ? [{ color: 'orange', value: s.warnAt }] : [])],
        },
      },
      overrides: [],
    },
    options: {
      colorMode: BigValueColorMode.Value,
      graphMode: BigValueGraphMode.Area,
      justifyMode: BigValueJustifyMode.Auto,
      orientation: VizOrientation.Auto,
      percentChangeColorMode: PercentChangeColorMode.Standard,
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      showPercentChange: false,
      textMode: BigValueTextMode.Value,
      wideLayout: true,
    } satisfies StatOptions,
  };
}

function series(s: Spec, x: number): Panel {
  return {
    ...panel('timeseries', s, { h: 8, w: 12, x }),
    fieldConfig: {
      defaults: {
        unit: s.unit,
        min: 0,
        ...(s.max ? { max: s.max } : {}),
        custom: {
          drawStyle: GraphDrawStyle.Line,
          lineWidth: 1,
          fillOpacity: s.stacked ? 30 : 0,
          stacking: { mode: s.stacked ? StackingMode.Normal : StackingMode.None, group: 'A' },
        } satisfies GraphFieldConfig,
      },
      overrides: [],
    },
    options: {
      legend: { calcs: ['lastNotNull', 'max'], displayMode: LegendDisplayMode.Table, placement: 'bottom', showLegend: true },
      tooltip: { mode: TooltipDisplayMode.Multi, sort: SortOrder.Descending },
    } satisfies OptionsWithLegend & OptionsWithTooltip,
  };
}

function* drawn(): Generator<Panel | RowPanel> {
  for (const [title, specs] of Object.entries(rows)) {
    yield { id: ++id, type: 'row', title, collapsed: false, gridPos: { h: 1, w: 24, x: 0, y: y++ }, panels: [] };
    if (title === 'Overview') {
      yield* now.map((s, i) => stat(s, i * 6));
      y += 4;
    }
    for (const [i, s] of specs.entries()) {
      yield series(s, (i % 2) * 12);
      if (i % 2 === 1 || i === specs.length - 1) y += 8;
    }
  }
}

const every = { text: 'All', value: '$__all' };
const chosen = (name: string, label: string, query: string): VariableModel => ({
  name, label, type: 'query', datasource: source, query: { query, refId: name },
  includeAll: true, allValue: '.*', multi: true, current: every,
  refresh: VariableRefresh.onTimeRangeChanged, sort: VariableSort.alphabeticalAsc,
});

const dashboard: Dashboard = {
  uid: 'pawl',
  title: 'Pawl',
  description: 'What a Pawl database and its servers do. Generated by deploy/grafana/generate.ts.',
  tags: ['pawl'],
  schemaVersion: 41,
  version: 1,
  editable: true,
  graphTooltip: DashboardCursorSync.Crosshair,
  refresh: '30s',
  time: { from: 'now-1h', to: 'now' },
  timezone: 'browser',
  templating: {
    list: [
      { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', refresh: VariableRefresh.onDashboardLoad },
      chosen('namespace', 'Namespace', 'label_values(pawl_items, namespace)'),
      chosen('type', 'Type', `label_values(pawl_events_total, type)`),
    ],
  },
  panels: [...drawn()],
};

console.log(JSON.stringify(dashboard, null, 2));
