// Where the bars of the waterfall are: a row for each stage, a lane for what runs side by side, a track for each level.

const TRACK = 20;
const BAR = 18;
const ROW_PADDING = 5;

// Where each track is, with its spans in the order of time. Spans of one track do not overlap.
function layTracks(trace) {
  const depths = trace.lanes.map(() => 1);
  trace.lane.forEach((lane, i) => {
    depths[lane] = Math.max(depths[lane], trace.level[i] + 1);
  });
  const rows = trace.rows.map(([name]) => ({ name, top: 0, height: 0, tracks: [] }));
  const of = trace.lanes.map(() => []);
  let y = AXIS;
  trace.lanes.forEach(({ row }, lane) => {
    if (!rows[row].tracks.length) {
      rows[row].top = y;
      y += ROW_PADDING;
    }
    for (let level = 0; level < depths[lane]; level++) {
      const track = { y, spans: [], troubled: false };
      of[lane].push(track);
      rows[row].tracks.push(track);
      y += TRACK;
    }
    if (trace.lanes[lane + 1]?.row !== row) {
      y += ROW_PADDING;
      rows[row].height = y - rows[row].top;
    }
  });
  const trackOf = trace.lane.map((lane, i) => of[lane][trace.level[i]]);
  trackOf.forEach((track, i) => {
    track.spans.push(i);
    if (trace.outcome[i] !== "ok") track.troubled = true;
  });
  return { rows, trackOf, height: Math.max(y, AXIS + 60) };
}

// The span under a point; where none is, one within three pixels, so that short ones can be met.
function spanAt(app, layout, x, y) {
  const { trace, timeline } = app;
  const row = layout.rows.find(({ top, height }) => y >= top && y < top + height);
  const track = row?.tracks.find((candidate) => y >= candidate.y && y < candidate.y + TRACK);
  if (!track) return -1;
  const ns = timeline.ns(x);
  const after = firstEndingAfter(trace, track.spans, ns);
  let [best, distance] = [-1, 3 * timeline.scale];
  for (const i of track.spans.slice(Math.max(0, after - 1), after + 1)) {
    const away = Math.max(trace.start[i] - ns, ns - trace.end[i], 0);
    if (away < distance) [best, distance] = [i, away];
  }
  return best;
}

function scrollToSpan(app, layout, scroller) {
  if (app.selected < 0) return;
  const { y } = layout.trackOf[app.selected];
  const [top, height] = [scroller.scrollTop, scroller.clientHeight];
  if (y < top + AXIS + 4) scroller.scrollTop = y - AXIS - 30;
  else if (y + TRACK > top + height) scroller.scrollTop = y + TRACK + 30 - height;
}
