package recipes

import (
	"encoding/json"
)

// datasource is what the person who looks has chosen.
var datasource = object{"type": "prometheus", "uid": "${datasource}"}

type object = map[string]any

// Dashboard returns the dashboard in Grafana's classic JSON, which every Grafana
// imports.
func Dashboard() ([]byte, error) {
	var all []object
	for i, p := range panels() {
		all = append(all, p.object(i))
	}
	text, err := json.MarshalIndent(object{
		"id": nil, "uid": "weir", "title": "Weir", "tags": []string{"weir"}, "schemaVersion": 39, "version": 1,
		"editable": true, "refresh": "30s", "time": object{"from": "now-1h", "to": "now"}, "timezone": "browser",
		"templating": object{"list": []object{{
			"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1, "hide": 0,
		}}},
		"annotations": object{"list": []object{}},
		"panels":      all,
	}, "", "  ")
	return append(text, '\n'), err
}

const (
	columns     = 3
	panelWidth  = 24 / columns
	panelHeight = 8
)

func (p *panel) object(i int) object {
	var targets []object
	for j, q := range p.queries {
		target := object{"refId": string(rune('A' + j)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend}
		if p.kind == "table" {
			target["instant"], target["format"] = true, "table"
		}
		targets = append(targets, target)
	}
	return object{
		"id": i + 1, "title": p.title, "description": p.about, "type": p.kind, "datasource": datasource, "targets": targets,
		"gridPos":     object{"x": i % columns * panelWidth, "y": i / columns * panelHeight, "w": panelWidth, "h": panelHeight},
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}},
		"options":     object{},
	}
}
