package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

var aTask = pawl.NewTask{Type: "t"}

func TestReadSeesWhatWasCommitted(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		f := p.Engine.Feed()
		if got, err := f.Read(t.Context(), 0, 10); err != nil || len(got) != 0 {
			t.Fatalf("an empty feed holds %v, %v", got, err)
		}
		var after int64
		for range 300 {
			id := p.Create(aTask).ID
			got, err := f.Read(t.Context(), after, 10)
			if err != nil || len(got) != 1 || got[0].TaskID != id || got[0].TaskType != "t" || got[0].Position <= after {
				t.Fatalf("after %d: %+v, %v", after, got, err)
			}
			after = got[0].Position
		}
		all, err := f.Read(t.Context(), 0, 1000)
		if err != nil || len(all) != 300 || all[299].Position != after {
			t.Fatalf("%d events, %v", len(all), err)
		}
		other, err := p.Another(engine.Options{}).Feed().Read(t.Context(), 100, 1000)
		if err != nil || len(other) != 200 || other[0].ID != all[100].ID {
			t.Fatalf("another engine reads %d events, %v", len(other), err)
		}
	})
}

func TestWaitReturnsWhenThereIsMore(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		f := p.Engine.Feed()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := f.Wait(short, 0); err == nil {
			t.Fatal("it waited for nothing")
		}
		done := make(chan error, 1)
		go func() { done <- f.Wait(t.Context(), 0) }()
		p.Create(aTask)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	})
}
